"""Time to first token of a 1500-token prompt: cold, repeated, and with a new ending."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from interleave import interleaved_ms

from kvtool.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.runtime import Runtime

PROMPT_TOKENS = 1500
NEW_ENDING_TOKENS = 100
ROUNDS = 5


def run() -> Iterable[dict[str, Any]]:
    runtime = Runtime.open(EngineConfig(dtype="float32", max_model_len=2048, no_cache_dir=True))
    text = " ".join(f"Item {i} costs {i * 7 % 101} crowns." for i in range(300))
    prompt = runtime.tokenizer.encode(text)[:PROMPT_TOKENS]
    assert len(prompt) == PROMPT_TOKENS
    salts = count()

    def first_token(ids: list[int], namespace: bytes, cached: int) -> int:
        request = Request(ids, SamplingParams(max_tokens=1), namespace=namespace)
        for _ in runtime.engine.run([request]):
            pass
        assert request.num_cached_tokens == cached, (request.num_cached_tokens, cached)
        return request.output_ids[0]

    def cold() -> None:
        runtime.engine.manager.clear()
        assert first_token(prompt, runtime.namespace(str(next(salts))), 0) == expected

    def repeated() -> None:
        assert first_token(prompt, runtime.namespace("warm"), PROMPT_TOKENS - 1) == expected

    def new_ending() -> None:
        kept = PROMPT_TOKENS - NEW_ENDING_TOKENS
        ending = [(next(salts) * 31 + i) % 1000 + 1000 for i in range(NEW_ENDING_TOKENS)]
        first_token(prompt[:kept] + ending, runtime.namespace("warm"), kept)

    expected = first_token(prompt, runtime.namespace("first"), 0)

    def warm_up() -> None:
        first_token(prompt, runtime.namespace("warm"), 0)

    times = interleaved_ms(
        {"cold": cold, "fill": warm_up, "repeated": repeated, "new_ending": new_ending}, ROUNDS
    )
    runtime.close()
    yield {
        "model": runtime.effective["model"],
        "dtype": "float32",
        "prompt_tokens": PROMPT_TOKENS,
        "ttft_ms": {name: times[name] for name in ("cold", "repeated", "new_ending")},
        "repeated_to_cold": round(times["repeated"] / times["cold"], 3),
        "new_ending_to_cold": round(times["new_ending"] / times["cold"], 3),
    }
