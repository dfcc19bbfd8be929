"""Alibaba's Bailian (Qwen) traces, and ServeGen's, which are cut from them.

`timestamp` in seconds; `hash_ids` of 16-token blocks, the last one padded; `parent_chat_id` is the
turn before, -1 for a first turn. ServeGen's files have no times, some no hash ids either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvtool.traces.hash_ids import hash_ids_of
from kvtool.traces.read_log import ReadLog
from kvtool.traces.record import Record, need_whole, number, text, whole
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format, one_by_one
from kvtool.traces.trace_request import BlockPrompt, Json, LengthPrompt, Recorded, TraceRequest

BLOCK_TOKENS = 16
NO_PARENT = "-1"
DETAILS = ("type", "turn")


def recognise(head: Head) -> str | None:
    first = head.first
    if "chat_id" in first and "parent_chat_id" in first:
        return "chat_id and parent_chat_id: blocks of 16 tokens, time in seconds"
    if "type" in first and "input_length" in first and "timestamp" not in first:
        return "type and input_length without a time: ServeGen, blocks of 16 tokens"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    chats: dict[str, str] = {}
    return one_by_one(lambda record, log: _parse(record, chats, log))(file, log)


class _Turn(NamedTuple):
    """session: the first chat of the conversation. after: the turn before, if it is known."""

    session: str | None
    after: tuple[str, ...]


def _parse(record: Record, chats: dict[str, str], log: ReadLog) -> TraceRequest:
    """chats: the session of each chat so far."""
    fields, place = record.value, record.place
    chat = text(fields, "chat_id")
    turn = _turn(chat, text(fields, "parent_chat_id"), chats)
    if not turn.after and whole(fields, "turn", least=0) not in (None, 0, 1):
        log.note("Later turns whose earlier turn is not in the trace count as first ones", place)
    duration_ms = number(fields, "duration")
    request = TraceRequest(
        id=chat or text(fields, "request_id") or str(place.line),
        place=place,
        prompt=_prompt(fields),
        arrival_s=number(fields, "timestamp"),
        session=turn.session,
        after=turn.after,
        output_tokens=whole(fields, "output_length"),
        recorded=Recorded(duration_s=None if duration_ms is None else duration_ms / 1e3),
        details={name: fields[name] for name in DETAILS if name in fields},
    )
    if chat is not None and turn.session is not None:
        chats[chat] = turn.session
    return request


def _turn(chat: str | None, parent: str | None, chats: dict[str, str]) -> _Turn:
    if parent in (None, NO_PARENT) or parent not in chats:
        return _Turn(chat, ())
    assert parent is not None
    return _Turn(chats[parent], (parent,))


def _prompt(fields: Json) -> BlockPrompt | LengthPrompt:
    num_tokens = need_whole(fields, "input_length", least=1)
    if fields.get("hash_ids") is None:
        return LengthPrompt(num_tokens)
    return BlockPrompt(hash_ids_of(fields), num_tokens, BLOCK_TOKENS)


FORMAT = Format("bailian", "a Bailian (Qwen) trace", recognise, read)
