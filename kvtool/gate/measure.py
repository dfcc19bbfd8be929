"""Runs the cases through an engine: with moved text, and computed in full."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kvtool.engine.batch import SampledToken
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.engine.verify import Logits, compare_logits
from kvtool.errors import ModelError
from kvtool.gate.cases import Case
from kvtool.gate.score import CaseResult

Progress = Callable[[int, int], None]  # done, total
Namespace = Callable[[int], bytes]  # of a case; no two share KV


def measure(
    engine: Engine, cases: Sequence[Case], namespace: Namespace, progress: Progress
) -> list[CaseResult]:
    """engine: its cache moves text. Raises `ModelError` for a context that the cases do not fit
    into, or logits that are no numbers."""
    _check_context(engine.scheduler.config.max_model_len, cases)
    results = []
    for number, case in enumerate(cases):
        progress(number, len(cases))
        results.append(_measure(engine, case, namespace(number)))
    return results


def _check_context(max_model_len: int, cases: Sequence[Case]) -> None:
    longest = max(case.num_tokens for case in cases)
    if longest > max_model_len:
        raise ModelError(
            f"The probe set needs a context of {longest} tokens; this model has {max_model_len}.",
            hint="Use --reuse prefix with it, or --reuse shift --ungated without a measurement.",
        )


def _measure(engine: Engine, case: Case, namespace: bytes) -> CaseResult:
    for donor in case.donors:
        _run(engine, [Request(donor, _sampling(1), namespace=namespace, shift=False)])
    full = _request(case, namespace, reuse=False)
    moved = _request(case, namespace, reuse=True)
    _run(engine, [full, moved])
    pairs = list(zip(full.samples, moved.samples, strict=True))
    found = compare_logits(((_logits(a), _logits(b)) for a, b in pairs), tolerance=0.0)
    if not math.isfinite(found.max_abs_logit_diff):
        raise ModelError("The model's logits are no numbers, so nothing can be compared.")
    usage = moved.usage
    return CaseResult(
        situation=case.situation,
        prompt_tokens=usage.prompt_tokens,
        shifted_tokens=usage.shifted_tokens,
        recomputed_tokens=usage.recomputed_tokens,
        rows=len(pairs),
        kl=found.kl_mean,
        top1=found.top1_agreement,
        nll_change=float(np.mean([_logprob(a) - _logprob(b) for a, b in pairs])),
    )


def _request(case: Case, namespace: bytes, *, reuse: bool) -> Request:
    """Answers with the case's answer; each token keeps the logits it was drawn from."""
    return Request(
        case.prompt,
        _sampling(len(case.answer)),
        namespace=namespace,
        reuse=reuse,
        forced_ids=case.answer,
        keep_logits=True,
    )


def _sampling(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, logprobs=0)


def _run(engine: Engine, requests: Sequence[Request]) -> None:
    for request in engine.run(requests):
        if request.error is not None:
            raise request.error


def _logits(sample: SampledToken) -> Logits:
    assert sample.logits is not None
    return sample.logits


def _logprob(sample: SampledToken) -> float:
    assert sample.logprob is not None
    return sample.logprob
