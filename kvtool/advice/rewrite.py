"""What a rewriting of a trace is: the same requests with other prompts that say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest

Requests = Callable[[], Iterable[TraceRequest]]
"""The requests of a trace, as often as they are asked for."""

Rewrite = Callable[[Requests], Iterator[TraceRequest]]
"""A pure function of a trace: as many requests, in the same order, with the same ids."""

SYSTEM_ROLES = ("system", "developer")


def composed(rewrites: Sequence[Rewrite]) -> Rewrite:
    """One behind the other: each sees what those in front of it made."""

    def rewrite(requests: Requests) -> Iterator[TraceRequest]:
        for one in rewrites:
            requests = _after(one, requests)
        return iter(requests())

    return rewrite


def _after(rewrite: Rewrite, requests: Requests) -> Requests:
    return lambda: rewrite(requests)


def changes_any(rewrite: Rewrite, requests: Requests) -> bool:
    return any(new.prompt != old.prompt for new, old in zip(rewrite(requests), requests()))


def num_system(messages: Sequence[Json]) -> int:
    """How many messages stand in front of the conversation."""
    return next(
        (n for n, message in enumerate(messages) if message["role"] not in SYSTEM_ROLES),
        len(messages),
    )


def with_messages(request: TraceRequest, messages: Iterable[Json]) -> TraceRequest:
    """The request of a chat with other messages; itself where they are the same."""
    assert isinstance(request.prompt, ChatPrompt)
    new = tuple(messages)
    if new == request.prompt.messages:
        return request
    return replace(request, prompt=request.prompt._replace(messages=new))
