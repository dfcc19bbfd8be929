"""What a rewriting did to a prompt, as a unified diff of its text."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from kvtool.traces.content import compact
from kvtool.traces.plain_rendering import call_text
from kvtool.traces.trace_request import ChatPrompt, TraceRequest

LINE_CHARACTERS = 160
CONTEXT_LINES = 1


def prompt_diff(old: TraceRequest, new: TraceRequest) -> str:
    """Of two chats; long lines are cut in the middle. "" where they are the same."""
    lines = unified_diff(
        list(_lines(old)),
        list(_lines(new)),
        f"{old.id} as recorded",
        f"{new.id} rewritten",
        n=CONTEXT_LINES,
        lineterm="",
    )
    return "\n".join(map(_short, lines))


def _lines(request: TraceRequest) -> Iterator[str]:
    prompt = request.prompt
    assert isinstance(prompt, ChatPrompt)
    for tool in prompt.tools:
        yield f"[tool] {compact(tool)}"
    for message in prompt.messages:
        yield f"[{message['role']}]"
        yield from (message.get("content") or "").splitlines()
        yield from (call_text(call) for call in message.get("tool_calls") or ())


def _short(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    tail = LINE_CHARACTERS // 4
    return f"{line[: LINE_CHARACTERS - tail - 3]} … {line[-tail:]}"
