"""Paragraphs of the system message that many requests have, in front of those that few have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import xxhash

from kvtool.advice.paragraphs import pieces
from kvtool.advice.rewrite import SYSTEM_ROLES, Requests, with_messages
from kvtool.advice.situation import Proposal, Situation
from kvtool.traces.trace_request import ChatPrompt, TraceRequest

TITLE = "Put paragraphs that are shared first in the system message"
WHY = (
    "Text that many requests have stands behind text of one user, agent or session, and is found "
    "by nobody. Paragraphs move whole; order: all sessions, several, one, one request."
)


def stable_first(situation: Situation) -> Iterator[Proposal]:
    """Paragraphs in the order static, shared, session, turn."""
    return situation.rewriting(shared_first, TITLE, WHY)


def shared_first(requests: Requests) -> Iterator[TraceRequest]:
    """Sorted by how many sessions have a paragraph, then by how many requests; equals stay in
    their order. A request without a session is one of its own."""
    uses: dict[bytes, _Use] = {}
    for request in requests():
        for key in {_key(piece) for piece in _pieces(request)}:
            uses.setdefault(key, _Use()).add(request)
    for request in requests():
        found = _pieces(request)
        if len(found) < 2:
            yield request
            continue
        assert isinstance(request.prompt, ChatPrompt)
        ordered = _sorted(found, uses)
        if ordered == list(found):
            yield request
        else:
            first, *rest = request.prompt.messages
            new = {**first, "content": "\n\n".join(ordered)}
            yield with_messages(request, (new, *rest))


@dataclass(slots=True)
class _Use:
    requests: int = 0
    sessions: set[str] = field(default_factory=set)

    def add(self, request: TraceRequest) -> None:
        self.requests += 1
        self.sessions.add(f"request {request.id}" if request.session is None else request.session)

    @property
    def rank(self) -> tuple[int, int]:
        return -len(self.sessions), -self.requests


def _sorted(found: Sequence[str], uses: dict[bytes, _Use]) -> list[str]:
    return sorted(found, key=lambda piece: uses[_key(piece)].rank)


def _pieces(request: TraceRequest) -> tuple[str, ...]:
    """Of the system message that a prompt begins with; () without one."""
    prompt = request.prompt
    if not isinstance(prompt, ChatPrompt) or prompt.messages[0]["role"] not in SYSTEM_ROLES:
        return ()
    return pieces(prompt.messages[0]["content"] or "")


def _key(piece: str) -> bytes:
    return xxhash.xxh3_128_digest(piece.encode())
