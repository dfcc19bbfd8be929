"""Cache events as JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kvtool.errors import ConfigError

if TYPE_CHECKING:
    from kvtool.cache.events import Event, EventSink


def open_event_file(path: str, resources: ExitStack) -> EventSink:
    """One JSON object a line, written through at once: others follow the file while we run."""
    from kvtool.cache.events import as_json

    try:
        file = resources.enter_context(open(path, "w", encoding="utf-8", buffering=1))  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"Cannot write --events {path!r}: {error.strerror}.") from None
    return lambda event: print(json.dumps(as_json(event)), file=file)


def fan_out(sinks: Sequence[EventSink]) -> EventSink | None:
    if len(sinks) < 2:
        return sinks[0] if sinks else None

    def send(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return send
