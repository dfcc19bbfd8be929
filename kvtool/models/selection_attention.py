"""`attn`: what the prompt's own rows look at in a run, while its KV is still stale.

The rule is kvtool's own; related are A3 (2025) and ProphetKV (2026), which also ask the query.
The weights of all layers and heads are summed by token. What a token is wrong by falls with its
index in the run, because tokens further in were computed behind more of the run itself; so the
sum is damped by the index. Measured, the damping does as well as CacheBlend's deviation as a
second factor, which needs a pass of its own, and the sum alone does worse.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs
from kvtool.models.paged_cache import PagedCache, PagedLayer
from kvtool.models.selection_rows import in_chunks
from kvtool.reuse.probe import Candidates
from kvtool_kernels import attention_mass

DAMPING = 16  # tokens; the factor halves at index 3 * DAMPING


def attention_scores(
    paged: PagedModel, inputs: ForwardInputs, candidates: Sequence[Candidates], max_rows: int
) -> list[torch.Tensor]:
    """Damped attention mass, float64 [stop - start] each.

    inputs: the rows to compute behind the first candidate. Their KV is stored in their slots, as
    it comes out over stale KV; those behind the last candidate count.
    """
    start, stop = candidates[0].start, candidates[-1].stop
    num_rows = len(inputs.positions)
    counted = int((inputs.positions < stop).sum())
    assert counted < num_rows, "no row behind the candidates"
    mass = torch.zeros(stop - start, dtype=torch.float64, device=paged.device)
    for chunk in in_chunks(inputs, 0, counted, max_rows):
        paged.run(PagedCache(paged.paged_layers, chunk), chunk)
    for chunk in in_chunks(inputs, counted, num_rows, max_rows):
        _add_mass(paged, chunk, mass, start)
    return [_damped(mass[c.start - start : c.stop - start], c) for c in candidates]


def _damped(mass: torch.Tensor, tokens: Candidates) -> torch.Tensor:
    indices = torch.arange(tokens.start, tokens.stop, device=mass.device) - tokens.run_start
    return mass / (1 + indices.double() / DAMPING).sqrt()


def _add_mass(paged: PagedModel, inputs: ForwardInputs, mass: torch.Tensor, first: int) -> None:
    try:
        paged.run(_MassCache(paged.paged_layers, inputs, mass, first), inputs)
    except _AllAttended:
        return
    raise AssertionError("a layer without attention")


class _AllAttended(Exception):
    """The last layer's attention is done: nothing behind it is of interest."""


class _MassCache(PagedCache):
    """Adds what the rows look at, layer by layer, to `mass` of the keys from `first` on."""

    def __init__(
        self,
        layers: Sequence[PagedLayer],
        inputs: ForwardInputs,
        mass: torch.Tensor,
        first: int,
    ) -> None:
        super().__init__(layers, inputs)
        self._mass = mass
        self._first = first
        self._num_attended = 0

    def _paged_attention(
        self,
        query: torch.Tensor,
        layer: PagedLayer,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        spec = layer.spec
        out = query.new_empty(*query.shape[:2], spec.latent_dim or spec.head_dim)
        attention_mass(
            query,
            layer.kv_cache,
            out,
            self._mass,
            self._first,
            self._positions,
            self._inputs.groups[layer.group].entries,
            scale=scale,
            window=spec.window,
            chunk=spec.chunk,
            softcap=softcap,
            sinks=sinks,
            latent_dim=spec.latent_dim,
            rope=layer.rope if self._inputs.has_deltas else None,
            at_read=layer.at_read,
        )
        self._num_attended += 1
        if self._num_attended == len(self._layers):
            raise _AllAttended
        return out
