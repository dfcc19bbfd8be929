"""Dropping the oldest turns in larger steps, for clients that drop some at every turn.

    window of the client     12   123   234   345   456   567
    in larger steps          12   123  1234   345  3456  34567

Each cut moves all text behind it, so nothing behind the system message is found again. Nothing is
taken from a prompt: it keeps what the client dropped, until that would be more than what the
client sends, and is cut where the client cut it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvtool.advice.rewrite import Requests, num_system, with_messages
from kvtool.advice.situation import Proposal, Situation
from kvtool.traces.content import compact
from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest

TITLE = "Drop old turns in larger steps"
WHY = (
    "The client drops its oldest turns at nearly every turn, which moves all that follows. Kept "
    "until as much has gathered as the client sends, they move it less often; prompts get up to "
    "twice as long in between, and need that much context."
)


def compaction(situation: Situation) -> Iterator[Proposal]:
    """Keep dropped turns in the prompt for a while."""
    return situation.rewriting(in_larger_steps, TITLE, WHY)


def in_larger_steps(requests: Requests) -> Iterator[TraceRequest]:
    sessions: dict[tuple[str | None, ...], _History] = {}
    for request in requests():
        prompt = request.prompt
        if not isinstance(prompt, ChatPrompt) or request.session is None:
            yield request
            continue
        head = num_system(prompt.messages)
        key = request.session, request.model, compact(prompt.messages[:head])
        history = sessions.setdefault(key, _History())
        window = history.window(prompt.messages[head:])
        yield with_messages(request, (*prompt.messages[:head], *window))


@dataclass(slots=True)
class _History:
    """All turns of a conversation so far. start: where the client's last window began; kept: where
    ours did."""

    messages: list[Json] = field(default_factory=list)
    start: int = 0
    kept: int = 0

    def window(self, messages: tuple[Json, ...]) -> tuple[Json, ...]:
        """What the prompt shows of the conversation that the client cut down to `messages`."""
        start = self._found(messages)
        if start is None:
            self.messages, self.start, self.kept = list(messages), 0, 0
            return messages
        self.messages[start:] = messages
        self.start = start
        if start == self.kept:
            return messages
        if _characters(self.messages[self.kept : start]) > _characters(messages):
            self.kept = start
        return tuple(self.messages[self.kept :])

    def _found(self, messages: tuple[Json, ...]) -> int | None:
        """Where the window begins in the conversation; None: it does not go on from it. A cut is
        one only if it drops whole turns: what is left begins with a user's."""
        for start in range(self.start, len(self.messages)):
            overlap = self.messages[start:]
            if len(overlap) <= len(messages) and list(messages[: len(overlap)]) == overlap:
                whole = start == self.start or messages[0]["role"] == "user"
                return start if whole else None
        return None


def _characters(messages: list[Json] | tuple[Json, ...]) -> int:
    return sum(len(compact(message)) for message in messages)
