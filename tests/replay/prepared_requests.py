"""Requests of traces, written down in few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kvtool.config import CacheConfig
from kvtool.replay.outcome import RequestOutcome
from kvtool.replay.replay import Replay, ReplayResult
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import LengthPrompt, Place, TraceRequest

TEXT = Unit(1, 4)
HASH_IDS = Unit(512, 1)


def prepared(
    index: int,
    symbols: Sequence[int],
    *,
    unit: Unit = TEXT,
    num_tokens: int | None = None,
    namespace: bytes = b"",
    reply: Sequence[int] = (),
    output: int = 0,
    **request: Any,
) -> PreparedRequest:
    num_tokens = num_tokens or len(symbols) * unit.tokens_per_symbol
    fields = {"id": f"r{index}", "arrival_s": 0.0, **request}
    return PreparedRequest(
        index=index,
        request=TraceRequest(
            place=Place("trace.jsonl", index + 1), prompt=LengthPrompt(num_tokens), **fields
        ),
        symbols=np.array(symbols, dtype=np.int32),
        num_tokens=num_tokens,
        namespace=namespace,
        reply=np.array(reply, dtype=np.int32),
        num_output_tokens=output,
    )


def replay(
    requests: Sequence[PreparedRequest],
    num_blocks: int,
    *,
    unit: Unit = TEXT,
    cache: dict[str, Any] | None = None,
    executor: Any = None,
    **settings: Any,
) -> tuple[list[RequestOutcome], ReplayResult]:
    """Outcomes in the order of the trace."""
    config = CacheConfig(num_blocks=num_blocks, block_size=unit.block_size, **(cache or {}))
    outcomes: list[RequestOutcome] = []
    player = Replay(
        ReplaySettings(cache=config, unit=unit, **settings),
        on_outcome=outcomes.append,
        executor=executor,
    )
    result = player.run(requests)
    player.manager.check_integrity()
    order = [prepared.index for prepared in requests]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.index)), result


@st.composite
def traces(draw: st.DrawFn, unit: Unit = TEXT) -> list[PreparedRequest]:
    """Prompts that continue each other, replies known or not, arrivals that overlap. Few different
    symbols, at times one alone: much is shared, and cached blocks are gone on from anywhere."""
    symbols = st.integers(1, draw(st.integers(1, 3)))
    histories: list[list[int]] = [[]]
    requests = []
    for index in range(draw(st.integers(1, 8))):
        base = draw(st.sampled_from(histories))
        kept = base[: draw(st.integers(0, len(base)))]
        prompt = (kept + draw(st.lists(symbols, max_size=9))) or [1]
        reply = draw(st.lists(symbols, max_size=9))
        histories.append(prompt + reply)
        after = draw(st.sampled_from([(), (f"r{index - 1}",)])) if index else ()
        requests.append(
            prepared(
                index,
                prompt,
                unit=unit,
                reply=reply if unit.tokens_per_symbol == 1 and draw(st.booleans()) else [],
                output=draw(st.integers(0, 9)),
                namespace=draw(st.sampled_from([b"", b"", b"other"])),
                arrival_s=index * draw(st.sampled_from([0.0, 0.125, 1.0])),
                after=after,
                delay_s=draw(st.sampled_from([0.0, 0.5])),
            )
        )
    return sorted(requests, key=lambda prepared: prepared.request.arrival_s)


def blocks_needed(requests: Sequence[PreparedRequest], unit: Unit = TEXT) -> int:
    """Of the largest request, its reply included."""
    tokens = (
        len(r.symbols) + max(len(r.reply), r.num_output_tokens) // unit.tokens_per_symbol + 1
        for r in requests
    )
    return max(-(-count // unit.block_size) for count in tokens)
