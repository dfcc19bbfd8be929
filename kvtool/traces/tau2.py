"""Results of tau2-bench: simulations with the messages of agent, user and tools.

The simulated user has a model and tools of its own; only the agent's prompts are requests here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvtool.traces.conversation import Conversation, requests_of
from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import Record, inner, items, shown, text
from kvtool.traces.timestamps import lasted, seconds
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import ChatPrompt, Json, Recorded, TraceRequest
from kvtool.traces.usage import usage_of

NOTE = (
    "tau2 files have the agent's policy, which is taken as its system prompt, but neither the "
    "instructions around it nor the tool schemas"
)


def recognise(head: Head) -> str | None:
    if isinstance(head.first.get("simulations"), list):
        return "simulations: tau2-bench results"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    log.note(NOTE)
    for record in file.records(log):
        try:
            simulations = items(record.value, "simulations")
        except BadRecord as fault:
            log.refuse(record.place, fault)
            continue
        for simulation in simulations:
            try:
                yield from _requests(record, simulation)
            except BadRecord as fault:
                log.refuse(record.place, fault)


def _requests(record: Record, simulation: object) -> Iterator[TraceRequest]:
    if not isinstance(simulation, dict):
        raise BadRecord("a simulation must be an object", f"it is {shown(simulation)}")
    info = inner(record.value, "info")
    policy = text(inner(info, "environment_info"), "policy")
    system = [{"role": "system", "content": policy}] if policy else []
    heard = [*system, *(m for m in _flat(items(simulation, "messages")) if _is_heard(m))]
    spoken = [(part, m) for m in heard for part in messages_of([_linked(m)])]
    conversation = Conversation(
        session=text(simulation, "id") or f"task-{text(simulation, 'task_id')}",
        place=record.place,
        messages=[part for part, _ in spoken],
        model=text(inner(info, "agent_info"), "llm"),
    )
    origins = [message for _, message in spoken]
    for request in requests_of(conversation):
        yield _timed(request, origins)


def _flat(messages: list[object]) -> Iterator[Json]:
    """Results of several calls come as one message that holds them."""
    for message in messages:
        if not isinstance(message, dict):
            raise BadRecord("a message must be an object", f"it is {shown(message)}")
        yield from _flat(message["tool_messages"]) if message.get("tool_messages") else [message]


def _is_heard(message: Json) -> bool:
    """By the agent: not what passes between the user and the user's own tools."""
    if message.get("role") == "tool":
        return message.get("requestor") != "user"
    return message.get("role") != "user" or not message.get("tool_calls")


def _linked(message: Json) -> Json:
    if message.get("role") == "tool" and "id" in message:
        return {**message, "tool_call_id": str(message["id"])}
    return message


def _timed(request: TraceRequest, origins: list[Json]) -> TraceRequest:
    """A message's time is when it was complete; the agent is asked when the one before it is."""
    assert isinstance(request.prompt, ChatPrompt)
    end = len(request.prompt.messages)
    usage = usage_of(inner(origins[end], "usage"))
    arrival, answered = (seconds(origins[i], "timestamp") for i in (end - 1, end))
    return replace(
        request,
        arrival_s=arrival,
        output_tokens=usage.output_tokens,
        recorded=Recorded(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            duration_s=lasted(arrival, answered),
        ),
    )


FORMAT = Format("tau2", "tau2-bench results", recognise, read)
