"""The requests of a trace as the cache sees them, to be iterated by one part after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kvtool.traces.open_trace import Trace
from kvtool.traces.prepare import prepare
from kvtool.traces.prepared import PreparedRequest, Symbols, Unit
from kvtool.traces.render import Renderer
from kvtool.traces.rendering import Rendering
from kvtool.traces.trace_request import TraceRequest

KEPT_SYMBOLS = 1 << 24

Requests = Callable[[], Iterable[TraceRequest]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """rendering: for text only. with_replies: see `Renderer`. requests: in place of those of
    the trace, text like them.

    Requests are read and rendered anew for each iteration, unless all of them are small enough to
    be kept.
    """

    trace: Trace
    unit: Unit
    rendering: Rendering | None = None
    with_replies: bool = False
    requests: Requests | None = None
    _kept: list[PreparedRequest] = field(default_factory=list)

    def __iter__(self) -> Iterator[PreparedRequest]:
        return iter(self._kept) if self._kept else self._read()

    def __len__(self) -> int:
        return len(self.trace)

    def decode(self, symbols: Sequence[int] | Symbols) -> str | None:
        """None: hash ids stand for no text that is known."""
        return None if self.rendering is None else self.rendering.decode(symbols)

    def rewritten(self, requests: Requests) -> Workload:
        """The same with other requests, as many of them."""
        return replace(self, requests=requests, _kept=[])

    def _read(self) -> Iterator[PreparedRequest]:
        kept: list[PreparedRequest] = []
        room = KEPT_SYMBOLS
        for prepared in self._prepared():
            room -= len(prepared.symbols) + len(prepared.reply)
            if room >= 0:
                kept.append(prepared)
            else:
                kept.clear()
            yield prepared
        if room >= 0 and not self._kept:
            self._kept.extend(kept)

    def _prepared(self) -> Iterator[PreparedRequest]:
        renderer = None
        if self.rendering is not None:
            renderer = Renderer(self.rendering, with_replies=self.with_replies)
        if self.requests is None:
            return prepare(self.trace, renderer, self.unit, load_only=True)
        assert renderer is not None, "only text can be rewritten"
        return (renderer.render(n, request) for n, request in enumerate(self.requests()))
