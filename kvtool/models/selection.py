"""Choose the tokens of moved runs that are computed again (repair attn, vdev, kdev).

One pass over the request's table as it stands: nothing is written but the KV of rows that the
request computes anyway, in slots of its own, and the pass that follows writes those again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvtool.errors import ModelError
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs
from kvtool.models.selection_attention import attention_scores
from kvtool.models.selection_deviation import CHECKED, deviation_scores
from kvtool.reuse.probe import Candidates

ATTENTION = "attn"
MAX_ROWS = 2048  # at a time; any number gives the same choice
PROJECTIONS = 0.1  # of a layer's work


class Selection(NamedTuple):
    """positions: of each candidate's chosen tokens, int64, ascending. row_layers: the cost of
    choosing, in rows times layers."""

    positions: tuple[npt.NDArray[np.int64], ...]
    row_layers: float


def check_selectable(paged: PagedModel, rule: str) -> None:
    """Raises `ModelError` for a model whose layers cannot say what the rule asks for."""
    if rule != ATTENTION and len(paged.layers) <= CHECKED:
        raise ModelError(
            f"{paged.architecture} cannot choose tokens by repair {rule}: it has "
            f"{len(paged.layers)} layer, and the second is the first to see any context.",
            hint="Use --repair auto, or for example attn:0.15.",
        )


@torch.inference_mode()
def select_tokens(
    paged: PagedModel,
    rule: str,
    inputs: ForwardInputs,
    candidates: Sequence[Candidates],
    *,
    max_rows: int = MAX_ROWS,
) -> Selection:
    """rule: attn, vdev or kdev. inputs: the rows of `probe.make_probe`, ONE sequence whose
    entries tile [0, last position + 1) in every group. candidates: by start.

    Rows inside candidates are not stored, whatever their slots; all others are.
    """
    num_rows, num_layers = len(inputs.positions), len(paged.layers)
    if all(tokens.num_selected == tokens.stop - tokens.start for tokens in candidates):
        everything = (np.arange(tokens.start, tokens.stop) for tokens in candidates)
        return Selection(tuple(everything), 0)
    if rule == ATTENTION:
        scores = attention_scores(paged, inputs, candidates, max_rows)
        cost = float(num_rows * num_layers)
    else:
        scores = deviation_scores(paged, rule, inputs, candidates, max_rows)
        cost = num_rows * (CHECKED + PROJECTIONS)
    return Selection(tuple(map(_largest, scores, candidates)), cost)


def _largest(scores: torch.Tensor, tokens: Candidates) -> npt.NDArray[np.int64]:
    """Ties go to the earlier token."""
    order = np.argsort(-scores.cpu().numpy(), kind="stable")
    return tokens.start + np.sort(order[: tokens.num_selected])
