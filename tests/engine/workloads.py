"""Random workloads: lengths around multiples of the block size, shared prefixes, tiny pools."""

from __future__ import annotations

import os
from typing import Any

import pytest
from engine.toy_engine import VOCAB, toy_request
from hypothesis import strategies as st

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request

SOAK_FACTOR = int(os.environ.get("KVTOOL_SOAK_FACTOR", "1"))  # benchmarks/soak/equality.py


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    block_size = draw(st.sampled_from([1, 2, 3, 4, 4, 4, 8, 16]))
    near_blocks = st.tuples(st.integers(0, 3 if block_size < 8 else 2), st.integers(-1, 1)).map(
        lambda blocks_offset: max(1, blocks_offset[0] * block_size + blocks_offset[1])
    )
    bases = draw(st.lists(st.integers(0, 2**32), min_size=1, max_size=2))
    suffix = st.lists(st.integers(0, VOCAB - 1), max_size=2)
    prompt = st.builds(
        lambda base, length, suffix: base_tokens(base, length) + suffix,
        st.sampled_from(bases),
        near_blocks,
        suffix,
    )
    reply = st.one_of(st.integers(1, 3), near_blocks, st.integers(block_size, 3 * block_size))
    prompts = draw(st.lists(st.tuples(prompt, reply), min_size=1, max_size=6))
    least_blocks = max(-(-(len(prompt) + reply - 1) // block_size) for prompt, reply in prompts)
    number = st.integers(0, len(prompts) - 1)
    return {
        "prompts": prompts,
        "arrivals": [draw(st.integers(0, 3)) for _ in prompts],
        "aborts": draw(st.dictionaries(number, st.integers(0, 8), max_size=2)),
        "interrupts": draw(st.sets(st.integers(0, 12), max_size=1)),
        "engine": {
            "block_size": block_size,
            "num_blocks": least_blocks + draw(st.sampled_from([0, 1, 1, 2, 2, 3, 40])),
            "num_groups": draw(st.integers(1, 2)),
            "index": draw(st.sampled_from(["radix", "chain"])),
            "max_num_seqs": draw(st.sampled_from([1, 2, 64, 64])),
            "max_num_batched_tokens": draw(st.sampled_from([1, 3, 5, 7, 16, 17, 256])),
            "max_overtakes": draw(st.integers(0, 3)),
            "watermark": draw(st.sampled_from([0.0, 0.0, 0.01, 0.3])),
        },
    }


def base_tokens(seed: int, length: int) -> list[int]:
    """The beginning of an endless document: the same seed, the same prefix."""
    return [(seed >> (i % 31)) % VOCAB for i in range(length)]


def play(engine: Engine, workload: dict[str, Any], **kwargs: Any) -> list[Request]:
    """Submit by arrival step, abort and interrupt where the workload says so, run to the end."""
    requests = [toy_request(prompt, reply, **kwargs) for prompt, reply in workload["prompts"]]
    for step in range(10_000):
        for request, arrival in zip(requests, workload["arrivals"]):
            if arrival == step:
                engine.add(request)
        for number, when in workload["aborts"].items():
            if when == step and step >= workload["arrivals"][number]:
                engine.abort(requests[number])
        if engine.has_work:
            if step in workload["interrupts"]:
                interrupt(engine)
                engine.check_integrity()
            engine.step()
        elif step > max(workload["arrivals"]):
            return requests
    raise AssertionError("the run does not end")


def interrupt(engine: Engine) -> None:
    """A step whose executor is stopped by Ctrl-C before it did anything."""
    execute = engine.executor.execute

    def raise_interrupt(batch: Any) -> Any:
        raise KeyboardInterrupt

    engine.executor.execute = raise_interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    engine.executor.execute = execute  # type: ignore[method-assign]
