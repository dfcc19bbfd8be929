"""Sessions of Claude Code (`~/.claude/projects/**.jsonl`).

The file is a tree of records by `uuid` and `parentUuid`. One API message is split over several
assistant records with the same `message.id` and the same usage, so it is counted once. Its prompt
is the path from the root to its first record; results of tools that ran side by side hang on
branches of their own and are put back beside their calls. A sub-agent (`isSidechain`) is a session
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvtool.traces.claude_code_tree import ApiMessage, Node, Tree
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.record import inner, text
from kvtool.traces.timestamps import lasted
from kvtool.traces.trace_file import Head, TraceFile
from kvtool.traces.trace_format import Format
from kvtool.traces.trace_request import ChatPrompt, Json, Recorded, TraceRequest
from kvtool.traces.usage import usage_of

NOTE = (
    "Claude Code files have neither the system prompt nor the tool schemas, and thinking without "
    "its text: prompts are shorter than the recorded ones"
)
CUT = "The conversation began in another file: prompts lack that part, and those of which nothing is left are left out"
SYNTHETIC = "<synthetic>"  # the client spoke, no model was asked


def recognise(head: Head) -> str | None:
    for record in head.records:
        if record.get("type") in ("user", "assistant") and "parentUuid" in record:
            return "type, uuid and parentUuid: a Claude Code session"
    return None


def read(file: TraceFile, log: ReadLog) -> Iterator[TraceRequest]:
    """A file is one session; it is held whole, because later records complete earlier ones."""
    tree = Tree()
    log.note(NOTE)
    for record in file.records(log):
        try:
            tree.add(record)
        except BadRecord as fault:
            log.refuse(record.place, fault)
    asked: set[str] = set()
    for message in tree.api_messages():
        if message.model == SYNTHETIC:
            continue
        try:
            request = _request(tree, message, asked, log)
        except BadRecord as fault:
            log.refuse(message.first.place, fault)
            continue
        if request is not None:
            asked.add(request.id)
            yield request


@dataclass
class _Walk:
    """A prompt as it grows along a path. asked_s: when the last of it was known."""

    messages: list[Json] = field(default_factory=list)
    before: ApiMessage | None = None
    asked_s: float | None = None

    def add(self, step: Node | ApiMessage) -> None:
        if isinstance(step, ApiMessage):
            self.messages.append(step.said)
            self.before, self.asked_s = step, None
        else:
            self.messages.extend(step.said)
            self.asked_s = max(filter(None, (self.asked_s, step.time_s)), default=None)


def _request(tree: Tree, message: ApiMessage, asked: set[str], log: ReadLog) -> TraceRequest | None:
    """None where all of the prompt is in another file."""
    walk = _Walk()
    for step in tree.steps(message):
        walk.add(step)
    root = tree.root(message)
    if tree.is_cut(root):
        log.note(CUT, message.first.place)
        if not walk.messages:
            return None
    if not walk.messages:
        raise BadRecord("a reply without a prompt", "no message leads to it")
    usage = usage_of(message.usage)
    arrival = message.first.time_s if walk.asked_s is None else walk.asked_s
    before = walk.before if walk.before and walk.before.id in asked else None
    waited = lasted(before.ended_s, arrival) if before else None
    return TraceRequest(
        id=message.id,
        place=message.first.place,
        prompt=ChatPrompt(tuple(walk.messages)),
        arrival_s=arrival,
        session=_session(message.first.fields, root),
        after=(before.id,) if before else (),
        delay_s=waited or 0.0,
        model=message.model,
        output_tokens=usage.output_tokens,
        reply=message.said,
        recorded=Recorded(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            duration_s=lasted(arrival, message.ended_s),
        ),
        details=inner(message.usage, "cache_creation"),
    )


def _session(fields: Json, root: Node) -> str | None:
    session = text(fields, "sessionId")
    if not fields.get("isSidechain"):
        return session
    return f"{session}/{text(fields, 'agentId') or root.uuid}"


FORMAT = Format("claude-code", "Claude Code session", recognise, read)
