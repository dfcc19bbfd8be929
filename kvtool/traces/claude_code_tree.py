"""The records of a Claude Code file as a tree, and the path to each API message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kvtool.traces.messages import messages_of
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import Record, inner, shown, text
from kvtool.traces.timestamps import seconds
from kvtool.traces.trace_request import Json, Place


@dataclass(frozen=True, eq=False)
class Node:
    """A record with a uuid. order: of the record in its file."""

    uuid: str
    parent: str | None
    order: int
    place: Place
    fields: Json

    @property
    def kind(self) -> object:
        return self.fields.get("type")

    @property
    def message(self) -> Json:
        return inner(self.fields, "message")

    @cached_property
    def time_s(self) -> float | None:
        return seconds(self.fields, "timestamp")

    @cached_property
    def said(self) -> tuple[Json, ...]:
        """What a user's record adds to a prompt."""
        return messages_of([{**self.message, "role": "user"}])


@dataclass(eq=False)
class ApiMessage:
    """A reply of the model: its records, in order."""

    id: str
    nodes: list[Node] = field(default_factory=list)

    @property
    def first(self) -> Node:
        return self.nodes[0]

    @property
    def ended_s(self) -> float | None:
        return self.nodes[-1].time_s

    @property
    def model(self) -> str | None:
        return text(self.first.message, "model")

    @property
    def is_error(self) -> bool:
        """The client wrote it to say that the API failed; it is never sent."""
        return bool(self.first.fields.get("isApiErrorMessage"))

    @property
    def usage(self) -> Json:
        """The same in each record, except that the first ones of a stream may count less output."""
        return next((u for node in reversed(self.nodes) if (u := inner(node.message, "usage"))), {})

    @cached_property
    def said(self) -> Json:
        """Read once the file was read: more records may join until then."""
        blocks = [block for node in self.nodes for block in _blocks(node.message.get("content"))]
        return messages_of([{"role": "assistant", "content": blocks}])[0]


class Tree:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._messages: dict[str, ApiMessage] = {}
        self._results: dict[str, Node] = {}  # by the id of the call
        self._of_node: dict[str, ApiMessage] = {}

    def add(self, record: Record) -> None:
        """Records without a uuid (titles, modes, snapshots) are no part of any prompt."""
        fields = record.value
        uuid = text(fields, "uuid")
        if uuid is None or uuid in self._nodes:
            return
        node = Node(uuid, text(fields, "parentUuid"), len(self._nodes), record.place, fields)
        if node.kind in ("user", "assistant"):
            self._check(node)
        if node.kind == "assistant":
            message_id = text(node.message, "id") or uuid
            message = self._messages.setdefault(message_id, ApiMessage(message_id))
            message.nodes.append(node)
            self._of_node[uuid] = message
        elif node.kind == "user":
            self._results.update(dict.fromkeys(_calls_answered(node.message), node))
        self._nodes[uuid] = node

    def api_messages(self) -> Iterator[ApiMessage]:
        return (message for message in self._messages.values() if not message.is_error)

    def path(self, message: ApiMessage) -> list[Node]:
        """The records before it, from the root; a circle of parents is cut."""
        nodes: dict[str, Node] = {}
        parent = message.first.parent
        while parent in self._nodes and parent not in nodes:
            nodes[parent] = self._nodes[parent]
            parent = nodes[parent].parent
        return list(nodes.values())[::-1]

    def steps(self, message: ApiMessage) -> Iterator[Node | ApiMessage]:
        """What its prompt is made of: what was said on its path, each reply whole and once, with
        the results of its calls behind it wherever they hang."""
        done: set[Node | ApiMessage] = {message}
        for node in self.path(message):
            found: list[Node | ApiMessage]
            if (step := self._of_node.get(node.uuid)) is not None:
                answers = self._answers(step, message.first.order)
                found = [] if step.is_error else [step, *answers]
            else:
                found = [node] if node.kind == "user" else []
            for part in found:
                if part not in done:
                    done.add(part)
                    yield part

    def root(self, message: ApiMessage) -> Node:
        return next(iter(self.path(message)), message.first)

    def is_cut(self, root: Node) -> bool:
        """Whether more came before the first record of a path, in another file."""
        return root.parent is not None and root.parent not in self._nodes

    def _answers(self, message: ApiMessage, before: int) -> list[Node]:
        calls = [call.get("id") for call in message.said.get("tool_calls", ())]
        answers = {node for call in calls if (node := self._results.get(call)) is not None}
        return sorted((n for n in answers if n.order < before), key=lambda node: node.order)

    def _check(self, node: Node) -> None:
        if not isinstance(node.fields.get("message"), Mapping):
            raise BadRecord(
                "message must be an object", f"it is {shown(node.fields.get('message'))}"
            )
        if not isinstance(node.message.get("content"), str | list):
            raise BadRecord(
                "message.content must be text or a list",
                f"it is {shown(node.message.get('content'))}",
            )
        messages_of([{**node.message, "role": node.kind}])
        seconds(node.fields, "timestamp")
        inner(node.message, "usage")


def _blocks(content: Any) -> Iterable[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _calls_answered(message: Json) -> Iterator[str]:
    for block in _blocks(message["content"]):
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            yield str(block.get("tool_use_id"))
