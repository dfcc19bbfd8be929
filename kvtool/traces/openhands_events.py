"""The events of an OpenHands trajectory as a dialogue with a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.traces.chat_request import reply_of
from kvtool.traces.content import compact, content_text
from kvtool.traces.messages import assistant
from kvtool.traces.record import inner, text
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.tool_calls import tool_call, tools_of
from kvtool.traces.trace_request import ChatPrompt, Json, Place, Recorded, TraceRequest
from kvtool.traces.usage import usage_of

SILENT = ("change_agent_state", "agent_state_changed", "null", "recall", "pause", "resume")
CONDENSED = ("condensation", "condensation_request")


@dataclass
class _Answer:
    place: Place
    response_id: str | None
    prompt: tuple[Json, ...]
    asked_s: float | None
    message: Json
    usage: Json
    ended_s: float | None


@dataclass
class Dialogue:
    session: str
    model: str | None = None
    tools: tuple[Json, ...] = ()
    _said: list[tuple[object, Json]] = field(default_factory=list)  # by the event's id
    _answer: _Answer | None = None
    _asked_s: float | None = None
    _before: TraceRequest | None = None
    _count: int = 0
    _responses: set[str] = field(default_factory=set)

    def add(self, event: Json, place: Place) -> list[TraceRequest]:
        """The request before this event, where the event shows that it is complete."""
        kind = event.get("action") or event.get("observation")
        time_s = seconds(event, "timestamp")
        if kind in SILENT or kind is None:
            return []
        if kind in CONDENSED:
            self._forget(inner(event, "args"))
            return []
        if kind == "system":
            self.tools = tools_of(inner(event, "args").get("tools"))
        if event.get("source") == "agent" and event.get("action") and kind != "system":
            return self._answered(event, place, time_s)
        done = self.close()
        self._said.append((event.get("id"), _heard(event, str(kind))))
        self._asked_s = time_s
        return done

    def close(self) -> list[TraceRequest]:
        answer, self._answer = self._answer, None
        if answer is None or not answer.prompt:
            return []
        self._count += 1
        usage = usage_of(answer.usage)
        before = self._before
        self._before = TraceRequest(
            id=f"{self.session}#{self._count}",
            place=answer.place,
            prompt=ChatPrompt(answer.prompt, self.tools),
            arrival_s=answer.asked_s,
            session=self.session,
            after=(before.id,) if before else (),
            delay_s=_waited(before, answer.asked_s),
            model=self.model,
            output_tokens=usage.output_tokens,
            reply=answer.message,
            recorded=Recorded(
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                duration_s=lasted(answer.asked_s, answer.ended_s),
            ),
        )
        return [self._before]

    def _answered(self, event: Json, place: Place, time_s: float | None) -> list[TraceRequest]:
        """Actions of one response come one after another, with observations between them; only the
        first is an answer. An observation's call is in the message already."""
        response = inner(inner(event, "tool_call_metadata"), "model_response")
        response_id = text(response, "id")
        if response_id is not None and response_id in self._responses:
            return []
        done = self.close()
        message = _answer_of(event, response)
        prompt = tuple(message for _, message in self._said)
        self._answer = _Answer(
            place, response_id, prompt, self._asked_s, message, inner(response, "usage"), time_s
        )
        if response_id is not None:
            self._responses.add(response_id)
        self._said.append((event.get("id"), message))
        return done

    def _forget(self, arguments: Json) -> None:
        forgotten = arguments.get("forgotten_event_ids")
        first, last = (arguments.get(f"forgotten_events_{end}_id") for end in ("start", "end"))
        if isinstance(forgotten, list):
            gone = set(map(str, forgotten))
        elif type(first) is int and type(last) is int:
            gone = {str(i) for i, _ in self._said if type(i) is int and first <= i <= last}
        else:
            return
        kept = [(i, message) for i, message in self._said if str(i) not in gone]
        if summary := text(arguments, "summary"):
            offset = arguments.get("summary_offset")
            place = offset if type(offset) is int and 0 <= offset <= len(kept) else len(kept)
            kept.insert(place, (None, {"role": "user", "content": summary}))
        self._said = kept


def _answer_of(event: Json, response: Json) -> Json:
    """The model's own message where the event has it; else the action as a call."""
    arguments = inner(event, "args")
    written = reply_of(response).message
    if isinstance(written, Mapping):
        return written
    if event.get("action") == "message":
        return assistant(content_text(arguments.get("content")))
    rest = {key: value for key, value in arguments.items() if key != "thought"}
    return assistant(
        content_text(arguments.get("thought")), [tool_call(event["action"], compact(rest))]
    )


def _heard(event: Json, kind: str) -> Json:
    call_id = text(inner(event, "tool_call_metadata"), "tool_call_id")
    arguments = inner(event, "args")
    content = content_text(event.get("content") or arguments.get("content"))
    if kind == "system":
        return {"role": "system", "content": content}
    if call_id:
        return {"role": "tool", "content": content, "tool_call_id": call_id}
    return {"role": "user", "content": content or content_text(event.get("message"))}


def _waited(before: TraceRequest | None, asked_s: float | None) -> float:
    if before is None or before.arrival_s is None or before.recorded.duration_s is None:
        return 0.0
    return lasted(before.arrival_s + before.recorded.duration_s, asked_s) or 0.0
