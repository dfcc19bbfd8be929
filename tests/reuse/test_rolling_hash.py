"""One function of a window, computed for all windows at once and block by block."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.reuse.rolling_hash import BASE, block_hashes, window_hashes

tokens = st.lists(st.integers(0, 2**31 - 1), max_size=80)


@given(ids=tokens, size=st.integers(1, 20))
def test_every_window_has_the_hash_of_its_tokens(ids: list[int], size: int) -> None:
    expected = [
        sum(token * BASE**j for j, token in enumerate(ids[at : at + size])) % 2**64
        for at in range(len(ids) - size + 1)
    ]
    assert window_hashes(np.array(ids, dtype=np.int32), size).tolist() == expected


@given(ids=tokens, size=st.integers(1, 20))
def test_a_block_hashes_like_the_window_that_holds_it(ids: list[int], size: int) -> None:
    array = np.array(ids, dtype=np.int32)
    blocks = array[: len(array) // size * size].reshape(-1, size)
    assert block_hashes(blocks).tolist() == window_hashes(array, size)[::size].tolist()


@pytest.mark.parametrize("vocabulary", [2, 50_000])
def test_different_windows_of_random_text_do_not_collide(vocabulary: int) -> None:
    array = np.random.default_rng(0).integers(0, vocabulary, 20_000).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(array, 16)
    assert len(np.unique(window_hashes(array, 16))) == len(np.unique(windows, axis=0))
