"""Which keys a layer may see, read from the predicate the model builds its own mask with.

Names and config fields differ between families (`sliding_window`, `attention_chunk_size`, layer
types …); the mask predicate is what the model itself obeys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from kvtool.models.attention_layer import Unsupported

Predicate = Callable[[int, int, torch.Tensor, torch.Tensor], torch.Tensor]

HORIZON = 1 << 18  # positions looked at; a longer window is as good as none
NONE, UNREADABLE = 0, -1  # how an absent window or an unknown mask travels in a tensor


class MaskPattern(NamedTuple):
    """Causal, and if given limited to a sliding window or to chunks, in tokens."""

    window: int | None = None
    chunk: int | None = None

    def visible(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        seen = key <= query
        if self.window is not None:
            seen = seen & (key > query - self.window)
        if self.chunk is not None:
            seen = seen & (key // self.chunk == query // self.chunk)
        return seen


def read_pattern(visible: Predicate, device: torch.device) -> MaskPattern | None:
    """The pattern behind a mask predicate of Transformers (batch, head, query, key) -> bool.

    None: neither causal, nor sliding-window, nor chunked.
    """
    queries = torch.arange(HORIZON, device=device)
    reach = int(_ask(visible, queries, torch.zeros_like(queries)).sum())  # queries that see key 0
    if reach == HORIZON:
        pattern = MaskPattern()
    elif reach > 1 and bool(_ask(visible, queries[reach : reach + 1], queries[1:2])):
        pattern = MaskPattern(window=reach)
    else:
        pattern = MaskPattern(chunk=max(reach, 1))
    query, key = _sample(reach, device)
    agrees = torch.equal(_ask(visible, query, key), pattern.visible(query, key))
    return pattern if agrees else None


def _ask(visible: Predicate, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(visible(0, 0, query, key)).expand(query.shape)


def _sample(reach: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of positions around 0, the reach and the horizon."""
    near = torch.arange(8, device=device)
    around = torch.cat((near, reach - 4 + near, 2 * reach - 4 + near, HORIZON - 1 - near))
    around = around.clamp(0, HORIZON - 1)
    query, key = torch.meshgrid(around, around, indexing="ij")
    return query.flatten(), key.flatten()


def pattern_as_mask(*, mask_function: Predicate, device: torch.device, **_: Any) -> torch.Tensor:
    """A mask function for the registry: the pattern as a tensor, int64 [1, 1, 1, 2].

    Models make masks that no layer uses, so an unreadable one is for its reader to refuse.
    """
    if device.type == "meta":  # numbers are wanted from a model that has none
        device = torch.device("cpu")
    pattern = read_pattern(mask_function, device)
    values = (UNREADABLE, UNREADABLE)
    if pattern is not None:
        values = (pattern.window or NONE, pattern.chunk or NONE)
    return torch.tensor(values, device=device).view(1, 1, 1, 2)


def pattern_of_mask(mask: torch.Tensor | None, window: int | None) -> MaskPattern:
    """What `pattern_as_mask` put into the mask that reached an attention layer.

    A model that makes no mask states its window in the call of the attention function.
    """
    if mask is None:
        return MaskPattern(window=window)
    if mask.shape != (1, 1, 1, 2) or mask.dtype != torch.int64:
        raise Unsupported("it adds a bias of its own to the attention mask")
    found_window, found_chunk = mask.flatten().tolist()
    if found_window == UNREADABLE:
        raise Unsupported("its attention mask is neither causal, nor sliding-window, nor chunked")
    return MaskPattern(window=found_window or None, chunk=found_chunk or None)
