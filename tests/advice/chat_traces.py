"""Chat traces of few words, served without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvtool.advice.advise import advise
from kvtool.advice.rewrite import Requests, Rewrite
from kvtool.replay.totals import Totals
from kvtool.simulation.serving import hits_of
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload
from kvtool.traces.fallback_tokenizer import FallbackTokenizer
from kvtool.traces.open_trace import open_trace
from kvtool.traces.plain_rendering import PlainRendering
from kvtool.traces.prepare import unit_of
from kvtool.traces.trace_request import ChatPrompt, Place, TraceRequest

Row = dict[str, Any]
EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "traces"
PLENTY = 4000  # blocks


def system(text: str) -> Row:
    return {"role": "system", "content": text}


def user(text: str) -> Row:
    return {"role": "user", "content": text}


def assistant(text: str, **fields: Any) -> Row:
    return {"role": "assistant", "content": text, **fields}


def chat(
    n: int, *messages: Row, tools: Sequence[Row] = (), session: str | None = None, **fields: Any
) -> TraceRequest:
    return TraceRequest(
        id=f"r{n}",
        place=Place("trace.jsonl", n + 1),
        prompt=ChatPrompt(messages, tuple(tools)),
        session=session,
        **fields,
    )


def chats(*prompts: Sequence[Row], session: str | None = None) -> Requests:
    requests = [chat(n, *messages, session=session) for n, messages in enumerate(prompts)]
    return lambda: requests


def rewritten(rewrite: Rewrite, requests: Requests) -> list[list[Row]]:
    """The messages of each request."""
    return [list(messages_of(request)) for request in rewrite(requests)]


def messages_of(request: TraceRequest) -> tuple[Any, ...]:
    assert isinstance(request.prompt, ChatPrompt)
    return request.prompt.messages


def again(rewrite: Rewrite, requests: Requests) -> list[list[Row]]:
    """Rewritten twice."""

    def once() -> Iterator[TraceRequest]:
        return rewrite(requests)

    return rewritten(rewrite, once)


def words(count: int, start: int = 0) -> str:
    """That many different words of one token each."""
    letters = "bcdfghjklm"
    return " ".join("w" + "".join(letters[int(d)] for d in f"{start + n:04}") for n in range(count))


def workload(folder: Path, rows: Sequence[Row], block_size: int = 16) -> Workload:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return opened(path, block_size)


def opened(path: Path, block_size: int = 16) -> Workload:
    is_blocks = '"hash_ids"' in path.read_text()
    trace = open_trace([path], trace_block_size=512 if is_blocks else None)
    rendering = PlainRendering(FallbackTokenizer()) if trace.kind == "text" else None
    return Workload(trace=trace, unit=unit_of(trace, block_size), rendering=rendering)


def served(
    load: Workload, settings: SimulationSettings | None = None, num_blocks: int = PLENTY
) -> Totals:
    return hits_of(load, settings or SimulationSettings(), num_blocks)


def advised(
    load: Workload,
    settings: SimulationSettings | None = None,
    num_blocks: int = PLENTY,
    **options: Any,
) -> dict[str, Any]:
    """Advice by id; every replay starts from the base of this capacity."""
    settings = settings or SimulationSettings()
    base = served(load, settings, num_blocks)
    found = advise(load, settings, num_blocks, base, {}, progress=lambda line: None, **options)
    return {advice.id: advice for advice in found}
