"""Whole conversations without times: ShareGPT (also SGLang's), vLLM's multi-turn files, and JSONL
of messages that end in a reply. Each turn becomes a request that carries all before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.errors import InputError
from kvtool.traces.conversation import Conversation, requests_of
from kvtool.traces.embedded_json import unpacked
from kvtool.traces.messages import message_of, messages_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, shown, text
from kvtool.traces.tool_calls import tool_call, tools_of
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import Json, TraceRequest


def recognise(head: Head) -> str | None:
    first = head.first
    if first.get("filetype") == "generate_conversations":
        return "filetype generate_conversations: vLLM's settings of a generator"
    turns = first.get("conversations")
    if isinstance(turns, list) and all(isinstance(t, Mapping) and "from" in t for t in turns[:4]):
        return "conversations with from and value: ShareGPT"
    if isinstance(first.get("messages"), list):
        return "messages that end in a reply: whole conversations"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    for record in file.records(log):
        try:
            yield from requests_of(_conversation(record))
        except BadRecord as fault:
            log.refuse(record.place, fault)


def _conversation(record: Record) -> Conversation:
    fields = record.value
    if fields.get("filetype") == "generate_conversations":
        raise InputError(
            f"{record.place.file} holds the settings of vLLM's generator, not conversations.",
            hint="Run benchmark_serving_multi_turn.py with --output-file and give its file.",
        )
    system = text(fields, "system", "system_prompt")
    head: tuple[Json, ...] = ({"role": "system", "content": system},) if system else ()
    return Conversation(
        session=text(fields, "id", "conversation_id") or str(record.place.line),
        place=record.place,
        messages=(*head, *_messages(fields)),
        tools=tools_of(unpacked(fields.get("tools"))),
        model=text(fields, "model"),
        asks_last=True,
    )


def _messages(fields: Json) -> tuple[Json, ...]:
    if "conversations" not in fields:
        return messages_of(fields.get("messages"))
    turns = fields["conversations"]
    if not isinstance(turns, list):
        raise BadRecord("conversations must be a list", f"it is {shown(turns)}")
    return tuple(_turn(turn) for turn in turns)


def _turn(turn: object) -> Json:
    if not isinstance(turn, Mapping) or not isinstance(turn.get("from"), str):
        raise BadRecord("a turn of conversations must be an object with from", shown(turn))
    if turn["from"] == "function_call":
        return _call(turn.get("value"))
    return message_of({"role": turn["from"], "content": turn.get("value")})


def _call(value: object) -> Json:
    call = unpacked(value)
    if isinstance(call, Mapping) and "name" in call:
        calls = [tool_call(call["name"], call.get("arguments"))]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    return message_of({"role": "assistant", "content": value})


FORMAT = Format("sharegpt", "whole conversations (ShareGPT, vLLM multi-turn)", recognise, read)
