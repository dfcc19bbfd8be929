"""What the cases of moved text share: the prompt, an ungated engine for it, and one request."""

from __future__ import annotations

from typing import Any

from kvtool.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.sampling import SamplingParams
from kvtool.runtime import Runtime

HEAD, MOVED, TAIL = 400, 1000, 100  # tokens: new, moved, new
DONOR_HEAD = 150  # tokens in front of the text where it is computed


def open_runtime(**options: Any) -> Runtime:
    return Runtime.open(
        EngineConfig(
            dtype="float32",
            max_model_len=2048,
            no_cache_dir=True,
            reuse="shift",
            ungated=True,
            **options,
        )
    )


def answer(
    runtime: Runtime, prompt: list[int], max_tokens: int = 1, *, shift: bool = True
) -> Request:
    sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    request = Request(prompt, sampling, shift=shift)
    for _ in runtime.engine.run([request]):
        pass
    return request
