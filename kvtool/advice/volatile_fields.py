"""Fields that change with every request, moved behind what stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import partial

from kvtool.advice.rewrite import Requests, num_system, with_messages
from kvtool.advice.situation import Proposal, Situation
from kvtool.advice.statements import Statement, statements
from kvtool.traces.trace_request import ChatPrompt, Json, TraceRequest

Destination = Callable[[tuple[Json, ...], int, str], tuple[Json, ...] | None]


def volatile_fields(situation: Situation) -> Iterator[Proposal]:
    """Clocks, dates, ids and counters of system messages, to the end of the system message or of
    the last user message."""
    patterns = volatile(situation.requests())
    if not patterns:
        return
    kinds = ", ".join(sorted({kind for each in patterns.values() for kind in each}))
    for where, destination in DESTINATIONS.items():
        yield from situation.rewriting(
            partial(moved, destination=destination),
            f"Move what changes with every request ({kinds}) to the end of the {where} message",
            f"System messages hold {kinds} values that differ between requests; all text behind "
            "them is computed again. Each is moved whole, with the words that say what it is.",
        )


def volatile(requests: Requests) -> dict[str, frozenset[str]]:
    """Patterns of statements whose values differ between requests, with the kinds of the values.
    A message that is nothing but statements does not count: nothing stands behind them."""
    first: dict[str, list[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for request in requests():
        texts: dict[str, list[str]] = {}
        kinds: dict[str, frozenset[str]] = {}
        for message in _system(request):
            for statement in _beside_others(message["content"] or ""):
                texts.setdefault(statement.pattern, []).append(statement.text)
                kinds[statement.pattern] = statement.kinds
        for pattern, values in texts.items():
            if first.setdefault(pattern, values) != values:
                found[pattern] = kinds[pattern]
    return found


def _beside_others(text: str) -> list[Statement]:
    """Those that are movable, or are once others are gone; [] where there is nothing else."""
    rest, found = text, list[Statement]()
    while more := list(statements(rest)):
        found += more
        rest = _without(rest, more)
    return found if rest else []


def moved(requests: Requests, destination: Destination) -> Iterator[TraceRequest]:
    patterns = volatile(requests).keys()
    for request in requests():
        yield _moved(request, patterns, destination) if _system(request) else request


def _moved(request: TraceRequest, patterns: Set[str], destination: Destination) -> TraceRequest:
    assert isinstance(request.prompt, ChatPrompt)
    messages = request.prompt.messages
    for index in range(num_system(messages)):
        content = messages[index]["content"] or ""
        if not _beside_others(content):
            continue
        rest, fields = taken_out(content, patterns)
        if not fields:
            continue
        new = destination(_with_content(messages, index, rest), index, "\n".join(fields))
        if new is not None and _squeezed(new[index]["content"]) != _squeezed(content):
            messages = new
    return with_messages(request, messages)


def taken_out(text: str, patterns: Set[str]) -> tuple[str, list[str]]:
    """The text without these statements, and them in their order. What becomes movable by that is
    taken out too."""
    rest, fields = text, []
    while found := [one for one in statements(rest) if one.pattern in patterns]:
        fields += [one.text for one in found]
        rest = _without(rest, found)
    return rest, sorted(fields, key=text.rfind)


def _without(text: str, found: list[Statement]) -> str:
    """Where a statement was, what separates most of what was around it stays: an empty line, a
    break, a blank."""
    rest, position, breaks = "", 0, 0
    for stop, following in [*(one[:2] for one in found), (len(text), len(text))]:
        part, gap = text[position:stop], text[stop:following]
        kept = part.strip()
        if kept:
            breaks = max(breaks, _breaks(part[: len(part) - len(part.lstrip())]))
            rest += ("\n" * min(breaks, 2) or " ") + part.strip() if rest else part.strip()
            breaks = 0
        breaks = max(breaks, _breaks(part[len(part.rstrip()) :]), _breaks(gap))
        position = following
    return rest


def _breaks(text: str) -> int:
    """At its end: line breaks behind the last character."""
    return text[len(text.rstrip()) :].count("\n")


def _squeezed(text: str) -> str:
    return "".join(text.split())


def to_system_end(messages: tuple[Json, ...], index: int, fields: str) -> tuple[Json, ...] | None:
    return _appended(messages, index, fields)


def to_last_user(messages: tuple[Json, ...], index: int, fields: str) -> tuple[Json, ...] | None:
    users = [n for n, message in enumerate(messages) if message["role"] == "user"]
    return _appended(messages, users[-1], fields) if users else None


DESTINATIONS: dict[str, Destination] = {"system": to_system_end, "last user": to_last_user}


def _appended(messages: tuple[Json, ...], index: int, fields: str) -> tuple[Json, ...] | None:
    """None: the end of that message is inside a block of code, or it introduces what follows."""
    content = messages[index]["content"] or ""
    if content.count("```") % 2 or content.rstrip().endswith(":"):
        return None
    return _with_content(messages, index, f"{content.rstrip()}\n\n{fields}" if content else fields)


def _with_content(messages: tuple[Json, ...], index: int, content: str) -> tuple[Json, ...]:
    new = {**messages[index], "content": content}
    return (*messages[:index], new, *messages[index + 1 :])


def _system(request: TraceRequest) -> tuple[Json, ...]:
    prompt = request.prompt
    if not isinstance(prompt, ChatPrompt):
        return ()
    return prompt.messages[: num_system(prompt.messages)]
