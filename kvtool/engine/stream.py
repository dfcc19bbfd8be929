"""Run requests and follow their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvtool.engine.engine import Engine
from kvtool.engine.output import TextOutput


class TextDelta(NamedTuple):
    output: TextOutput
    text: str


def stream(engine: Engine, outputs: Sequence[TextOutput]) -> Iterator[TextDelta]:
    """Text as it comes, request by request; the last delta of each has a `finish_reason`.

    Adds the requests (see `Engine.add` for the errors). A caller that stops early, or Ctrl-C,
    aborts what is left.
    """
    by_id = {output.request.id: output for output in outputs}
    try:
        for output in outputs:
            engine.add(output.request)
        while any(not output.request.is_finished for output in outputs):
            for request in engine.step():
                if request.id in by_id:
                    yield _follow(engine, by_id[request.id])
    finally:
        for output in outputs:
            engine.abort(output.request)


def _follow(engine: Engine, output: TextOutput) -> TextDelta:
    delta = output.update()
    if output.is_stopped:
        engine.finish(output.request, "stop")
    return TextDelta(output, delta)
