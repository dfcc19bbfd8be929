"""How far an arm's next-token distributions are from those of the full recompute, and its price."""

from __future__ import annotations

from typing import NamedTuple

import torch

from benchmarks.quality.case import Case
from benchmarks.quality.passes import Result


class Score(NamedTuple):
    """kl, kl_median: KL(full || arm) in nats, over the scored rows. top1: rows whose most likely
    token is the same. delta_nll: nats a token of the true answer is less likely."""

    kl: float
    kl_median: float
    top1: float
    delta_nll: float


class Reference(NamedTuple):
    """log_probs: of the full recompute, fp32 [num_scored, vocab]; answer: int64 [num_answer]."""

    log_probs: torch.Tensor
    answer: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor, case: Case) -> Reference:
        return cls(logits.log_softmax(-1), torch.tensor(case.answer))

    def score(self, logits: torch.Tensor) -> Score:
        """Scored rows: the question's and the answer's. Row t predicts token t + 1."""
        found = logits.log_softmax(-1)
        kl = (self.log_probs.exp() * (self.log_probs - found)).sum(-1).double()
        same = found.argmax(-1) == self.log_probs.argmax(-1)
        return Score(
            kl=float(kl.mean()),
            kl_median=float(kl.median()),
            top1=float(same.double().mean()),
            delta_nll=self._nll(found) - self._nll(self.log_probs),
        )

    def _nll(self, log_probs: torch.Tensor) -> float:
        rows = log_probs[-len(self.answer) - 1 : -1]
        return -float(rows.gather(1, self.answer[:, None]).double().mean())


def cost(result: Result, case: Case, num_layers: int) -> float:
    """In units of computing the reused text at all layers.

    (recomputed * layers + probe and query passes, in rows * layers) / (reused * layers). Rows of
    the question and of new text are computed under every arm and not counted; every row has the
    same price, and a row of a probe that ends at layer 1 costs the 1.1 layers it computes.
    """
    spent = result.num_recomputed * num_layers + result.probe_row_layers
    return spent / (case.num_reused * num_layers)
