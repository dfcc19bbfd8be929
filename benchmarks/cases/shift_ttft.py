"""Time to first token of 400 new + 1000 moved + 100 new tokens, by repair, against computing all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from interleave import interleaved_ms
from shift_runtime import DONOR_HEAD, HEAD, MOVED, TAIL, answer, open_runtime

from kvtool.runtime import Runtime

ROUNDS = 5
TARGETS = {"none": 0.35, "auto": 0.55, "attn:0.15": 0.60}


def run() -> Iterable[dict[str, Any]]:
    runtimes = {repair: open_runtime(repair=repair) for repair in TARGETS}
    vocabulary = min(runtime.vocab_size for runtime in runtimes.values())
    tokens = np.random.default_rng(7).integers(1000, vocabulary - 1000, 4000).tolist()
    moved, rest = tokens[:MOVED], tokens[MOVED:]
    donor = rest[:DONOR_HEAD] + moved
    target = rest[DONOR_HEAD : DONOR_HEAD + HEAD] + moved + rest[-TAIL:]
    variants: dict[str, Callable[[], object]] = {}
    sources: dict[str, tuple[int, int]] = {}
    for repair, runtime in runtimes.items():
        variants[f"fill {repair}"] = _fill(runtime, donor)
        variants[repair] = _shifted(runtime, target, repair, sources)
    variants["cold"] = _cold(runtimes["none"], target)
    times = interleaved_ms(variants, ROUNDS)
    for runtime in runtimes.values():
        runtime.close()
    yield {
        "model": runtimes["none"].effective["model"],
        "dtype": "float32",
        "prompt": {"new": HEAD, "moved": MOVED, "tail": TAIL},
        "ttft_ms": {name: times[name] for name in ("cold", *TARGETS)},
        "to_cold": {repair: round(times[repair] / times["cold"], 3) for repair in TARGETS},
        "targets": TARGETS,
        "shifted_recomputed_tokens": sources,
    }


def _fill(runtime: Runtime, donor: list[int]) -> Callable[[], object]:
    """Compute the text once behind something else; what an earlier round left is forgotten."""

    def fill() -> None:
        runtime.engine.manager.clear()
        answer(runtime, donor, shift=False)

    return fill


def _shifted(
    runtime: Runtime, target: list[int], repair: str, sources: dict[str, tuple[int, int]]
) -> Callable[[], object]:
    def shifted() -> None:
        request = answer(runtime, target)
        usage = request.usage
        assert usage.shifted_tokens + usage.recomputed_tokens >= MOVED - 2, usage
        sources[repair] = usage.shifted_tokens, usage.recomputed_tokens

    return shifted


def _cold(runtime: Runtime, target: list[int]) -> Callable[[], object]:
    def cold() -> None:
        runtime.engine.manager.clear()
        request = answer(runtime, target, shift=False)
        assert request.usage.computed_tokens == len(target)

    return cold
