"""`vdev`, `kdev`: how far a token's stored V or K at layer 1 is from what its context makes it.

CacheBlend's rule (Yao et al., EuroSys 2025): its released code ranks tokens by the squared L2
deviation of V at the second layer, LMCache by that of K, rotated to the target. Unlike both, a
row here sees exactly the keys in front of its own position.

What layer 0 stores depends on token and position alone, so a moved run's layer 0 is right as it
stands: its rows read it through the table and are stored nowhere. The pass ends where layer 1
hands its K and V to the cache. It computes layer 0 and the projections of layer 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kvtool.models.capture import Stored
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs
from kvtool.models.paged_cache import PagedCache, PagedLayer
from kvtool.models.selection_rows import in_chunks, without_storing
from kvtool.reuse.probe import Candidates
from kvtool_kernels import rotate, unit_rotation

CHECKED = 1  # the first layer that has seen the context


def deviation_scores(
    paged: PagedModel,
    rule: str,
    inputs: ForwardInputs,
    candidates: Sequence[Candidates],
    max_rows: int,
) -> list[torch.Tensor]:
    """Squared L2 distance over heads, float64 [stop - start] each.

    inputs: rows that hold all candidates and whatever between them has no KV yet. MLA stores one
    row a token: it is the K, its latent the V.
    """
    layer, plane = paged.paged_layers[CHECKED], 0 if rule == "kdev" else 1
    probed = without_storing(inputs, candidates)
    chunks = in_chunks(probed, 0, len(inputs.positions), max_rows)
    fresh = torch.cat([_fresh(paged, chunk, layer, plane) for chunk in chunks])
    scores = []
    for tokens in candidates:
        first = int((inputs.positions < tokens.start).sum())
        rows = fresh[first : first + tokens.stop - tokens.start]
        stored = _stored(layer, plane, inputs.groups[layer.group].entries, tokens)
        scores.append((rows.float() - stored.float()).square().sum((1, 2)).double())
    return scores


def _fresh(paged: PagedModel, inputs: ForwardInputs, layer: PagedLayer, plane: int) -> torch.Tensor:
    """Layer 1's K or V of all rows, [T, num_kv_heads, head_dim]."""
    try:
        paged.run(_DeviationCache(paged.paged_layers, inputs), inputs)
    except _Reached as reached:
        key, value = reached.stored
        if layer.spec.is_latent:
            return (key if plane else torch.cat((key, value), dim=-1))[0].transpose(0, 1)
        return (value if plane else key)[0].transpose(0, 1)
    raise AssertionError("a forward without layer 1")


def _stored(
    layer: PagedLayer, plane: int, entries: torch.Tensor, tokens: Candidates
) -> torch.Tensor:
    """What the table holds for these tokens, K turned to where they stand; shape as above."""
    positions = torch.arange(tokens.start, tokens.stop, device=entries.device)
    starts = entries[:, 2].long()
    rows = entries[torch.searchsorted(starts, positions, right=True) - 1].long()
    blocks, offsets = rows[:, 0], rows[:, 1] + positions - rows[:, 2]
    if layer.spec.is_latent:
        kept = layer.kv_cache[blocks, offsets][:, None]
        kept = kept[..., : layer.spec.latent_dim] if plane else kept
    else:
        kept = layer.kv_cache[blocks, plane, :, offsets]
    if plane or layer.rope is None:
        return kept
    cos, sin = unit_rotation(rows[:, 4], layer.rope.inv_freq)
    return rotate(kept, cos[:, None], sin[:, None], layer.rope)


class _Reached(Exception):
    """Carries what layer 1 stores out of the forward."""

    def __init__(self, stored: Stored) -> None:
        super().__init__()
        self.stored = stored


class _DeviationCache(PagedCache):
    """Ends the forward at layer 1's K and V, once what is stored there can be read."""

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer_idx == CHECKED:
            if self._inputs.wait is not None:
                self._inputs.wait(layer_idx)
            raise _Reached(Stored(key, value))
        return super().update(key, value, layer_idx, *args, **kwargs)
