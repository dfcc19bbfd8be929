"""The context of a Codex session as it grows, and the response that is being written to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.traces.record import inner, items, text
from kvtool.traces.responses_items import (
    add_item,
    instructions_of,
    is_of_model,
    messages_of_items,
)
from kvtool.traces.timestamps import lasted
from kvtool.traces.trace_request import ChatPrompt, Json, Place, Recorded, TraceRequest
from kvtool.traces.usage import Usage, usage_of

REPEATED_S = 1.0  # a fork writes its parent's history in one go; no model answers in that time


@dataclass
class _Response:
    place: Place
    prompt: tuple[Json, ...]
    model: str | None
    asked_s: float | None
    ended_s: float | None
    items: list[Json] = field(default_factory=list)
    is_open: bool = True
    usage: Usage | None = None


class Context:
    """session: what to call it until the file says."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.model: str | None = None
        self._began_s: float | None = None
        self._is_named = False
        self._is_fork = False
        self._messages: list[Json] = []
        self._response: _Response | None = None
        self._asked_s: float | None = None
        self._total: Json = {}
        self._number = 0
        self._before: tuple[str, float | None] | None = None

    def begin(self, meta: Json, time_s: float | None) -> None:
        """The first record names the session; a second one belongs to the parent that this file
        was forked from, whose history follows."""
        if self._is_named:
            self._is_fork = self._is_fork or text(meta, "id") != self.session
            return
        self._is_named = True
        self._is_fork = bool(meta.get("forked_from_id"))
        self._began_s = time_s
        self.session = text(meta, "id") or self.session
        self._messages.extend(instructions_of(_instructions(meta)))

    def add(self, item: Json, place: Place, time_s: float | None) -> TraceRequest | None:
        """The request before this one, where a new response begins."""
        done = None
        if is_of_model(item):
            if self._response is None or not self._response.is_open:
                done = self.close()
                asked = self._asked_s if self._asked_s is not None else time_s
                self._response = _Response(place, tuple(self._messages), self.model, asked, time_s)
            self._response.items.append(item)
            self._response.ended_s = time_s
        else:
            self._asked_s = time_s
            if self._response is not None:
                self._response.is_open = False
        add_item(self._messages, item)
        return done

    def count(self, info: Json) -> None:
        """Repeated counts (the total did not move) say nothing new."""
        total = inner(info, "total_token_usage")
        if not total or total == self._total or self._response is None:
            return
        self._total = total
        self._response.usage = usage_of(inner(info, "last_token_usage"))
        self._response.is_open = False

    def compact(self, payload: Json, time_s: float | None) -> None:
        """The history becomes what the record says, else what users said and the summary."""
        if self._response is not None:
            self._response.is_open = False
        self._asked_s = time_s
        if payload.get("replacement_history") is not None:
            head = [m for m in self._messages[:1] if m["role"] == "system"]
            kept = messages_of_items(items(payload, "replacement_history"))
            self._messages = [*head, *kept]
            return
        self._messages = [m for m in self._messages if m["role"] not in ("assistant", "tool")]
        if summary := text(payload, "message"):
            self._messages.append({"role": "user", "content": summary})

    def close(self) -> TraceRequest | None:
        """The request whose response was being written."""
        response, self._response = self._response, None
        if response is None or not response.prompt or self._is_repeated(response):
            return None
        self._number += 1
        usage = response.usage or Usage()
        before_id, before_end = self._before or (None, None)
        request = TraceRequest(
            id=f"{self.session}#{self._number}",
            place=response.place,
            prompt=ChatPrompt(response.prompt),
            arrival_s=response.asked_s,
            session=self.session,
            after=(before_id,) if before_id else (),
            delay_s=lasted(before_end, response.asked_s) or 0.0,
            model=response.model,
            output_tokens=usage.output_tokens,
            reply=next(iter(messages_of_items(response.items)), None),
            recorded=Recorded(
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                duration_s=lasted(response.asked_s, response.ended_s),
            ),
        )
        self._before = (request.id, response.ended_s)
        return request

    def _is_repeated(self, response: _Response) -> bool:
        since = lasted(self._began_s, response.ended_s)
        return self._is_fork and since is not None and since <= REPEATED_S


def _instructions(meta: Json) -> object:
    return meta.get("base_instructions") or meta.get("instructions")
