"""Which tokens a selecting arm computes again: kvtool's rules by token, and by block of 16."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.quality.bench import Positions
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs
from kvtool.models.selection import ATTENTION, PROJECTIONS, Selection, select_tokens
from kvtool.models.selection_attention import attention_scores
from kvtool.models.selection_deviation import CHECKED, deviation_scores
from kvtool.reuse.probe import Candidates, Probe


def choose_tokens(
    paged: PagedModel, rule: str, granule: int, inputs: ForwardInputs, probe: Probe
) -> Selection:
    """inputs: the rows of the probe. granule: tokens that are chosen together."""
    if granule == 1:
        return select_tokens(paged, rule, inputs, probe.candidates)
    num_rows = len(inputs.positions)
    with torch.inference_mode():
        if rule == ATTENTION:
            scores = attention_scores(paged, inputs, probe.candidates, num_rows)
            row_layers = float(num_rows * len(paged.layers))
        else:
            scores = deviation_scores(paged, rule, inputs, probe.candidates, num_rows)
            row_layers = num_rows * (CHECKED + PROJECTIONS)
    chosen = (_blocks(*pair, granule) for pair in zip(scores, probe.candidates))
    return Selection(tuple(chosen), row_layers)


def _blocks(scores: torch.Tensor, tokens: Candidates, granule: int) -> Positions:
    """As many whole blocks of the span as the wanted tokens fill, those of the largest sums."""
    edges = np.arange(0, len(scores), granule)
    sums = np.add.reduceat(scores.cpu().numpy(), edges)
    wanted = -(-tokens.num_selected // granule)
    best = np.sort(np.argsort(-sums, kind="stable")[:wanted])
    places = np.arange(tokens.start, tokens.stop)
    return np.concatenate([places[edges[i] :][:granule] for i in best])
