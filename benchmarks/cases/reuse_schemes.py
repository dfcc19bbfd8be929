"""What keys without rotation cost: time to first token and of decoding, rotate against nope."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from interleave import interleaved_ms
from shift_runtime import DONOR_HEAD, HEAD, MOVED, TAIL, answer, open_runtime

from kvtool.config import REUSE_SCHEMES
from kvtool.runtime import Runtime

DECODED = 32
ROUNDS = 3

Variants = dict[str, Callable[[], object]]


def run() -> Iterable[dict[str, Any]]:
    runtimes = {
        scheme: open_runtime(reuse_scheme=scheme, repair="none") for scheme in REUSE_SCHEMES
    }
    vocabulary = min(runtime.vocab_size for runtime in runtimes.values())
    tokens = np.random.default_rng(7).integers(1000, vocabulary - 1000, 4000).tolist()
    text, rest = tokens[:MOVED], tokens[MOVED:]
    donor = rest[:DONOR_HEAD] + text
    target = rest[DONOR_HEAD : DONOR_HEAD + HEAD] + text + rest[-TAIL:]
    replies: dict[str, list[list[int]]] = {scheme: [] for scheme in runtimes}
    variants: Variants = {}
    for scheme, runtime in runtimes.items():
        made = _variants(runtime, donor, target, replies[scheme])
        variants |= {f"{name} {scheme}": variant for name, variant in made.items()}
    times = interleaved_ms(variants, ROUNDS)
    for runtime in runtimes.values():
        runtime.close()
    assert replies["rotate"] == replies["nope"], "the schemes answer differently"
    rows = {name: _both(times, name) for name in ("cold", "moved", "decode")}
    rows["decode"] = {scheme: round(ms / DECODED, 2) for scheme, ms in rows["decode"].items()}
    yield {
        "model": runtimes["rotate"].effective["model"],
        "dtype": "float32",
        "prompt": {"new": HEAD, "moved": MOVED, "tail": TAIL},
        "ttft_ms": {name: rows[name] for name in ("cold", "moved")},
        "decode_ms_per_token": rows["decode"],
        "nope_to_rotate": {
            name: round(row["nope"] / row["rotate"], 3) for name, row in rows.items()
        },
    }


def _both(times: dict[str, float], name: str) -> dict[str, float]:
    return {scheme: times[f"{name} {scheme}"] for scheme in REUSE_SCHEMES}


def _variants(
    runtime: Runtime, donor: list[int], target: list[int], replies: list[list[int]]
) -> Variants:
    """In this order: decoding goes on from what was computed cold, moved text from the donor."""

    def cold() -> None:
        runtime.engine.manager.clear()
        usage = answer(runtime, target, 1, shift=False).usage
        assert usage.computed_tokens == len(target), usage

    def decode() -> None:
        request = answer(runtime, target, DECODED, shift=False)
        assert request.usage.cached_tokens == len(target) - 1, request.usage
        replies.append(request.output_ids)

    def fill() -> None:
        runtime.engine.manager.clear()
        answer(runtime, donor, 1, shift=False)

    def moved() -> None:
        usage = answer(runtime, target, 1, shift=True).usage
        assert usage.shifted_tokens >= MOVED - 2, usage

    return {"cold": cold, "decode": decode, "fill": fill, "moved": moved}
