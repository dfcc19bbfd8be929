"""Mooncake's traces and what Dynamo and AIPerf added to them: one request a line.

`timestamp`, `delay` in milliseconds; `input_length`, `output_length` in tokens; `hash_ids`, one a
block of a size that the file does not state (512 in Mooncake's own, 64 or 16 elsewhere; files for
kvcache-simulator have `block_size` and `block_tokens`). Rows of one `session_id` are turns: each
waits for the one before. Instead of hash ids a row may have `text_input`, `messages` or `payload`.

Format: Qin et al., "Mooncake", FAST '25; Dynamo's `MooncakeRow`; AIPerf's trace replay.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.traces.chat_request import prompt_of
from kvtool.traces.hash_ids import hash_ids_of
from kvtool.traces.own_fields import with_own
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, first_of, inner, items, need_whole, number, text, whole
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import (
    BlockPrompt,
    Json,
    LengthPrompt,
    Prompt,
    TextPrompt,
    TraceRequest,
)

INPUT = ("input_length", "input_tokens")
OUTPUT = ("output_length", "output_tokens")
TIME = ("timestamp", "created_time")
PROMPTS = ("input_length", "text_input", "messages", "payload")
DETAILS = ("strict_priority", "policy_class", "routing_constraints")
SMALLEST_PRIORITY = -(2**31)
WHOLE_PROMPTS = (
    "Later turns of a session are taken as whole prompts; where text_input is the new turn only, "
    "real prompts share more"
)


def recognise(head: Head) -> str | None:
    first = head.first
    if "hash_ids" in first and first_of(first, *INPUT) is not None:
        return "records with hash_ids and input_length"
    if "text_input" in first or ("messages" in first and "output_length" in first):
        return "records with text_input, or messages and output_length"
    timed = any(name in first for name in (*TIME, "delay", "session_id", "output_length"))
    if "payload" in first and timed and "type" not in first:
        return "records with a payload and a time of arrival"
    if "input_length" in first and timed:
        return "records with input_length, without hash_ids"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    turns = Turns()
    return one_by_one(turns.parse)(file, log)


class Turns:
    """The last request of each session so far."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def parse(self, record: Record, log: ReadLog) -> TraceRequest:
        fields, place = record.value, record.place
        session, delay_s = text(fields, "session_id"), milliseconds(fields, "delay", "delay_ms")
        before = None if session is None else self._last.get(session)
        request = TraceRequest(
            id=text(fields, "request_id") or str(place.line),
            place=place,
            prompt=prompt_in(fields),
            arrival_s=None if before and delay_s is not None else milliseconds(fields, *TIME),
            session=session,
            after=(before,) if before else (),
            delay_s=delay_s or 0.0,
            model=text(fields, "model"),
            priority=whole(fields, "priority", least=SMALLEST_PRIORITY) or 0,
            output_tokens=whole(fields, *OUTPUT),
            details={name: fields[name] for name in DETAILS if name in fields},
        )
        if before and isinstance(request.prompt, TextPrompt):
            log.note(WHOLE_PROMPTS, place)
        if session is not None:
            self._last[session] = request.id
        return with_own(request, fields, milliseconds(fields, *TIME))


def milliseconds(fields: Json, *names: str) -> float | None:
    """In seconds."""
    value = number(fields, *names)
    return None if value is None else value / 1e3


def prompt_in(fields: Json) -> Prompt:
    """Raises `BadRecord` unless there is exactly one kind of prompt."""
    kinds = [name for name in PROMPTS if fields.get(name) is not None]
    if len(kinds) > 1:
        raise BadRecord("more than one prompt", " and ".join(kinds))
    if kinds == ["text_input"]:
        return TextPrompt(text(fields, "text_input") or _empty("text_input"))
    if kinds == ["messages"]:
        return prompt_of(fields)
    if kinds == ["payload"]:
        return prompt_of(inner(fields, "payload"))
    num_tokens = need_whole(fields, *INPUT, least=1)
    if fields.get("hash_ids") is None:
        return LengthPrompt(num_tokens)
    return BlockPrompt(hash_ids_of(fields), num_tokens, _block_size(fields, num_tokens))


def _block_size(fields: Json, num_tokens: int) -> int | None:
    """As the row states it, or its tokens of each block do."""
    size = whole(fields, "block_size", least=1)
    tokens = items(fields, "block_tokens")
    if not tokens:
        return size
    full = size or (tokens[0] if len(tokens) > 1 else num_tokens)
    if type(full) is not int or full < 1 or tokens != _cut(num_tokens, full):
        raise BadRecord("block_tokens must be blocks of one size that make up input_length")
    return full if len(tokens) > 1 else size


def _cut(num_tokens: int, size: int) -> list[int]:
    return [min(size, num_tokens - start) for start in range(0, num_tokens, size)]


def _empty(name: str) -> str:
    raise BadRecord(f"{name} is empty")


FORMAT = Format("mooncake", "a Mooncake trace", recognise, read)
