"""A recorded conversation as the requests that made it: one for each reply of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.traces.read_log import BadRecord
from kvtool.traces.trace_request import ChatPrompt, Json, Place, TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """session: of its requests. tools: schemas that each request carries. delays_s: of the reply
    at a message index, how long before it a tool ran or a user thought. asks_last:
    whether what follows the last reply is a prompt too, whose reply is unknown. scripted: indices
    of messages in the model's role that no model wrote (a demonstration)."""

    session: str
    place: Place
    messages: Sequence[Json]
    tools: tuple[Json, ...] = ()
    model: str | None = None
    delays_s: Mapping[int, float] = field(default_factory=dict)
    scripted: frozenset[int] = frozenset()
    asks_last: bool = False


def requests_of(conversation: Conversation) -> Iterator[TraceRequest]:
    """Each assistant message is a reply whose prompt is all before it. Each request waits for the
    one before it. Raises `BadRecord` where nothing was asked."""
    before: tuple[str, ...] = ()
    messages = tuple(conversation.messages)
    replies = [i for i, m in enumerate(messages) if m["role"] == "assistant" and i > 0]
    ends = [i for i in replies if i not in conversation.scripted]
    if conversation.asks_last and messages and messages[-1]["role"] != "assistant":
        ends.append(len(messages))
    if not ends:
        raise BadRecord("the conversation asks nothing", "it has no message before a reply")
    for number, end in enumerate(ends, start=1):
        request = TraceRequest(
            id=f"{conversation.session}#{number}",
            place=conversation.place,
            prompt=ChatPrompt(messages[:end], conversation.tools),
            session=conversation.session,
            after=before,
            delay_s=conversation.delays_s.get(end, 0.0),
            model=conversation.model,
            reply=messages[end] if end < len(messages) else None,
        )
        yield request
        before = (request.id,)
