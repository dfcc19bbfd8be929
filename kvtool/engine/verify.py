"""Proof on demand: the same tokens, computed without any reuse, give the same logits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kvtool.engine.batch import SampledToken
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request

Logits = npt.NDArray[np.float32]

# Largest |logit difference| per unit of the largest |logit|: other chunk lengths mean other
# orders of summation, which is all that exact reuse may change.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


@dataclass(frozen=True, slots=True)
class Verification:
    """verdict: identical | within tolerance | different. kl_mean in nats, KL(fresh || reused);
    top1_agreement is the share of rows with the same likeliest token."""

    max_abs_logit_diff: float
    kl_mean: float
    top1_agreement: float
    tolerance: float
    verdict: str


def verify(engine: Engine, request: Request, dtype: str) -> Verification:
    """Recompute a finished request made with `keep_logits`; dtype: the model's, by name."""
    assert request.is_finished and request.keep_logits and request.output_ids
    pairs = zip(recompute(engine, request).samples, request.samples, strict=True)
    return compare_logits(((_logits(a), _logits(b)) for a, b in pairs), TOLERANCE[dtype])


def recompute(engine: Engine, request: Request) -> Request:
    """The same prompt and reply, without reading or leaving anything in the cache."""
    ids = request.output_ids
    sampling = replace(request.sampling, max_tokens=len(ids), ignore_eos=True)
    fresh = Request(
        request.prompt_ids,
        sampling,
        namespace=request.namespace,
        reuse=False,
        forced_ids=tuple(ids),
        keep_logits=True,
    )
    for _ in engine.run([fresh]):
        pass
    return fresh


def compare_logits(rows: Iterable[tuple[Logits, Logits]], tolerance: float) -> Verification:
    """rows: (fresh, reused), float32 [vocab_size] each; tolerance as in `TOLERANCE`."""
    differences, magnitudes, divergences, agreements = [], [1.0], [], []
    for fresh, reused in rows:
        differences.append(np.abs(fresh - reused).max())
        magnitudes.append(np.abs(fresh).max())
        divergences.append(_kl(fresh, reused))
        agreements.append(fresh.argmax() == reused.argmax())
    largest = float(np.max(differences))
    allowed = tolerance * float(np.max(magnitudes))
    return Verification(
        max_abs_logit_diff=largest,
        kl_mean=max(0.0, float(np.mean(divergences))),
        top1_agreement=float(np.mean(agreements)),
        tolerance=allowed,
        verdict=_verdict(largest, allowed),
    )


def _verdict(largest: float, allowed: float) -> str:
    if largest == 0.0:
        return "identical"
    return "within tolerance" if largest <= allowed else "different"  # NaN is different


def _kl(fresh: Logits, reused: Logits) -> float:
    p, q = _log_softmax(fresh), _log_softmax(reused)
    return float(np.sum(np.exp(p) * (p - q)))


def _log_softmax(logits: Logits) -> npt.NDArray[np.float64]:
    shifted: npt.NDArray[np.float64] = logits.astype(np.float64) - logits.max()
    shifted -= np.log(np.exp(shifted).sum())
    return shifted


def _logits(sampled: SampledToken) -> Logits:
    assert sampled.logits is not None
    return sampled.logits
