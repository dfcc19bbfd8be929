"""Text that repeats, or that has thousands of donors, costs no more than other text."""

from __future__ import annotations

import numpy as np
import pytest
from reuse.oracle import find
from reuse.texts import Store, text


@pytest.mark.parametrize("period", [1, 2, 3, 16, 17])
@pytest.mark.parametrize("header", [0, 5, 100])
def test_a_prompt_of_one_repeated_word_is_linear(period: int, header: int) -> None:
    """All windows are the same few; the run that covers the repetition is found all the same."""
    length = 16_000
    store = Store(2500, 16)
    words = np.resize(np.arange(period, dtype=np.int32), length)
    store.add(text(range(1000, 1037), words))
    tokens = text(range(5000, 5000 + header), words, 77)
    found = find(store, tokens)
    assert max(run.num_tokens for run in found.runs) >= 0.98 * length


def test_ten_thousand_donors_of_one_boilerplate() -> None:
    """Every alignment of it is cached hundreds of times, each copy behind another header."""
    rng = np.random.default_rng(0)
    ids = np.arange(1_000_000, 1_010_016, dtype=np.int32)
    boilerplate = rng.integers(0, 1000, 64).astype(np.int32)
    store = Store(100_000, 16)
    for i in range(10_000):
        store.add(np.concatenate([ids[i : i + 1 + i % 16], boilerplate]))
    tokens = text(range(2000, 2100), boilerplate, range(3000, 3100))
    found = find(store, tokens)
    assert found.num_verified <= 4 * 264
    assert max(run.num_tokens for run in found.runs) >= 64
    assert len(found.runs) <= 16


def test_repetition_does_not_starve_the_text_behind_it() -> None:
    store = Store(4000, 16)
    words = text(np.full(8000, 3))
    store.add(text(1000, words))
    store.add(text(1001, range(5000, 5400)))
    tokens = text(2000, 2001, words, range(5000, 5400), 9)
    found = find(store, tokens)
    assert (8002, 8402) in {(run.start, run.stop) for run in found.runs}
