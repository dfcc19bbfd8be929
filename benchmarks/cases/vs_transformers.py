"""Prefill and decode beside transformers' own forward with its DynamicCache, same weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from interleave import interleaved_ms

from kvtool.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.runtime import Runtime

ROUNDS = 3
REPLY_TOKENS = 16


def run() -> Iterable[dict[str, Any]]:
    from transformers import AutoModelForCausalLM

    from kvtool.models.source import resolve

    runtime = Runtime.open(EngineConfig(dtype="float32", reuse="none", max_model_len=4096))
    folder = resolve(None).path
    peer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for prompt_tokens in (128, 512, 2048):
        yield _case(runtime, peer, prompt_tokens)
    runtime.close()


def _case(runtime: Runtime, peer: Any, prompt_tokens: int) -> dict[str, Any]:
    ids = [(i * 7919 + 11) % 40000 + 100 for i in range(prompt_tokens)]

    def ours(max_tokens: int) -> list[int]:
        request = Request(ids, SamplingParams(max_tokens=max_tokens))
        for _ in runtime.engine.run([request]):
            pass
        return request.output_ids

    def theirs(max_tokens: int) -> list[int]:
        with torch.inference_mode():
            out = peer.generate(
                torch.tensor([ids]), max_new_tokens=max_tokens, do_sample=False, eos_token_id=None
            )
        return out[0, prompt_tokens:].tolist()

    assert ours(REPLY_TOKENS) == theirs(REPLY_TOKENS), "other tokens than transformers"
    times = interleaved_ms(
        {
            "ours_1": lambda: ours(1),
            "theirs_1": lambda: theirs(1),
            "ours_n": lambda: ours(REPLY_TOKENS),
            "theirs_n": lambda: theirs(REPLY_TOKENS),
        },
        ROUNDS,
    )
    steps = REPLY_TOKENS - 1
    decode = {who: (times[f"{who}_n"] - times[f"{who}_1"]) / steps for who in ("ours", "theirs")}
    return {
        "model": runtime.effective["model"],
        "dtype": "float32",
        "prompt_tokens": prompt_tokens,
        "prefill_ms": {"kvtool": times["ours_1"], "transformers": times["theirs_1"]},
        "prefill_ratio": round(times["ours_1"] / times["theirs_1"], 3),
        "decode_ms": {
            "kvtool": round(decode["ours"], 2),
            "transformers": round(decode["theirs"], 2),
        },
        "decode_ratio": round(decode["ours"] / decode["theirs"], 3),
    }
