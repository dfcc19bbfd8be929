"""Tool calls and tool schemas in OpenAI's form, from every form that logs have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.traces.content import compact
from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import shown
from kvtool.traces.trace_request import Json


def tool_calls_of(message: Json) -> list[Json]:
    """Its calls, an old `function_call` among them; raises `BadRecord`."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise BadRecord("tool_calls must be a list", f"it is {shown(calls)}")
    old = message.get("function_call")
    return [_tool_call(call) for call in (*calls, *([old] if old else []))]


def tool_call(name: object, arguments: object, call_id: object = None) -> Json:
    """arguments: JSON text, or the value that it stands for."""
    if not isinstance(name, str):
        raise BadRecord("a tool call has no name", f"it is {shown(name)}")
    text = (
        arguments if isinstance(arguments, str) else compact({} if arguments is None else arguments)
    )
    call: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": text}}
    return {"id": str(call_id), **call} if call_id is not None else call


def tools_of(schemas: object) -> tuple[Json, ...]:
    """Tool schemas as {"type": "function", "function": …}; key order stays. Raises `BadRecord`."""
    if not schemas:
        return ()
    if isinstance(schemas, Mapping):  # by name
        schemas = list(schemas.values())
    if not isinstance(schemas, list | tuple):
        raise BadRecord("tools must be a list", f"it is {shown(schemas)}")
    return tuple(_schema(schema) for schema in schemas)


def _tool_call(call: object) -> Json:
    if not isinstance(call, Mapping):
        raise BadRecord("a tool call must be an object", f"it is {shown(call)}")
    for kind in ("function", "custom"):
        if isinstance(inner := call.get(kind), Mapping):
            return tool_call(inner.get("name"), _arguments(inner), call.get("id"))
    return tool_call(call.get("name"), _arguments(call), call.get("id"))


def _arguments(call: Json) -> object:
    return next((call[key] for key in ("arguments", "args", "input") if key in call), None)


def _schema(schema: object) -> Json:
    if not isinstance(schema, Mapping):
        raise BadRecord("a tool schema must be an object", f"it is {shown(schema)}")
    if isinstance(schema.get("function"), Mapping) or "name" not in schema:
        return schema
    names = {"input_schema": "parameters"}
    function = {names.get(k, k): v for k, v in schema.items() if k not in ("type", "cache_control")}
    return {"type": "function", "function": function}
