"""Which request of a log goes on from which: its prompt repeats that prompt and adds a reply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import xxhash

from kvtool.traces.content import compact
from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest


class _Turn(NamedTuple):
    id: str
    ended_s: float | None


class TurnOrder:
    """Owner of what was asked so far: one digest a request, of its whole prompt."""

    def __init__(self) -> None:
        self._turns: dict[bytes, _Turn] = {}

    def ordered(self, request: TraceRequest) -> TraceRequest:
        """With `after` and `delay_s`, where an earlier request of the session is the turn before:
        all of its messages come first, and the model's reply comes next."""
        if not isinstance(request.prompt, ChatPrompt):
            return request
        digests = list(_digests(request))
        messages = request.prompt.messages
        before = None
        for length in range(len(messages) - 1, 0, -1):
            if messages[length]["role"] == "assistant":
                before = self._turns.get(digests[length])
            if before is not None:
                break
        self._turns[digests[-1]] = _Turn(request.id, _ended_s(request))
        if before is None or before.id == request.id:
            return request
        return replace(request, after=(before.id,), delay_s=_delay_s(before, request))


def _digests(request: TraceRequest) -> Iterator[bytes]:
    """Of the first 0, 1, 2, … messages."""
    assert isinstance(request.prompt, ChatPrompt)
    state = xxhash.xxh3_128(compact(request.session).encode())
    yield state.digest()
    for message in request.prompt.messages:
        state.update(compact(_told(message)).encode())
        yield state.digest()


def _told(message: Json) -> Json:
    return {key: value for key, value in message.items() if key != "reasoning_content"}


def _ended_s(request: TraceRequest) -> float | None:
    if request.arrival_s is None or request.recorded.duration_s is None:
        return None
    return request.arrival_s + request.recorded.duration_s


def _delay_s(before: _Turn, request: TraceRequest) -> float:
    if before.ended_s is None or request.arrival_s is None:
        return 0.0
    return max(0.0, request.arrival_s - before.ended_s)
