"""Windows and chunks are read from the predicate a model masks with."""

import pytest
import tiny
import torch
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    or_masks,
    sliding_window_causal_mask_function,
)

from kvtool.models.hf import PagedModel
from kvtool.models.mask_pattern import HORIZON, MaskPattern, read_pattern

CPU = torch.device("cpu")
NO_PADDING = torch.zeros(1, dtype=torch.int64)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 511, 512, 4096])
def test_windows_and_chunks(size: int) -> None:
    window = read_pattern(sliding_window_causal_mask_function(size), CPU)
    chunk = read_pattern(chunked_causal_mask_function(size, NO_PADDING), CPU)
    assert chunk == MaskPattern(chunk=size)
    if size > 1:
        assert window == MaskPattern(window=size)
    else:  # one token sees itself only, whatever it is called
        assert window == MaskPattern(chunk=1)


def test_no_limit_and_a_limit_out_of_sight_are_the_same() -> None:
    assert read_pattern(causal_mask_function, CPU) == MaskPattern()
    assert read_pattern(sliding_window_causal_mask_function(HORIZON), CPU) == MaskPattern()


@pytest.mark.parametrize(
    "predicate",
    [
        bidirectional_mask_function,
        sliding_window_causal_mask_function(0),  # nothing visible
        or_masks(causal_mask_function, lambda batch, head, q, k: k < 4),  # a bidirectional prefix
        and_masks(causal_mask_function, lambda batch, head, q, k: (q - k) % 2 == 0),  # dilated
    ],
)
def test_other_masks_are_not_guessed(predicate: object) -> None:
    assert read_pattern(predicate, CPU) is None  # type: ignore[arg-type]


def test_layers_of_real_families() -> None:
    def patterns(name: str) -> list[tuple[int | None, int | None]]:
        return [(layer.window, layer.chunk) for layer in PagedModel(tiny.build(name)).layers]

    assert patterns("llama") == [(None, None)] * 4
    assert patterns("mistral") == [(8, None)] * 4
    assert patterns("gemma2") == [(8, None), (None, None)] * 2
    assert patterns("gemma3_text") == [(8, None)] * 5 + [(None, None)]
    assert patterns("llama4_text") == [(None, 8)] * 3 + [(None, None)]
    assert patterns("qwen2/sliding") == [(None, None)] * 2 + [(8, None)] * 2
