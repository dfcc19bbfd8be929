"""Compares each request with the one before it of the same session."""

from __future__ import annotations

from collections import defaultdict, deque

from kvtool.analysis.causes.change import Change, Past
from kvtool.analysis.causes.changed_chat import chat_change
from kvtool.analysis.causes.changed_symbols import id_change, text_change
from kvtool.analysis.served import CauseSettings
from kvtool.cache.common_prefix import common_prefix
from kvtool.traces.prepared import PreparedRequest

RECENT = 4  # several threads of one session may take turns


class Sessions:
    """Keeps the last few prompts of each session and namespace, text included."""

    def __init__(self, settings: CauseSettings) -> None:
        self._settings = settings
        self._recent: defaultdict[tuple[str, bytes], deque[Past]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )

    def change(self, position: int, request: PreparedRequest) -> Change | None:
        """Of the requests one after another. None: nothing, or this begins something new."""
        session = request.request.session
        if session is None:
            return None
        recent = self._recent[session, request.namespace]
        shared = [common_prefix(request.symbols, past.request.symbols) for past in recent]
        change = None
        if shared:
            best = max(range(len(shared)), key=lambda i: (shared[i], i))
            change = compared(request, recent[best], shared[best], self._settings)
        recent.append(Past(position, request))
        return change


def compared(
    request: PreparedRequest, past: Past, shared: int, settings: CauseSettings
) -> Change | None:
    """shared: leading symbols that both have."""
    if settings.unit.tokens_per_symbol > 1:
        return id_change(request, past, shared, settings.unit)
    if request.segments and past.request.segments:
        return chat_change(request, past, shared, settings.output_kv)
    return text_change(request, past, shared, settings.output_kv)
