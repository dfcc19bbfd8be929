"""Tools and their keys in the order in which they were first seen."""

import json
from typing import Any

from advice.chat_traces import assistant, chat, rewritten, user

from kvtool.advice.tool_order import in_first_order
from kvtool.traces.trace_request import ChatPrompt, TraceRequest


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


READ, WRITE, RUN = tool("read"), tool("write"), tool("run")


def tools_after(*requests: TraceRequest) -> list[list[Any]]:
    prompts = [request.prompt for request in in_first_order(lambda: requests)]
    return [list(prompt.tools) for prompt in prompts if isinstance(prompt, ChatPrompt)]


def names(*orders: list[Any]) -> list[str]:
    found = tools_after(*(chat(n, user("?"), tools=tools) for n, tools in enumerate(orders)))
    return [" ".join(tool["function"]["name"] for tool in tools) for tools in found]


def test_tools_stand_as_first_seen() -> None:
    assert names([READ, WRITE], [WRITE, READ], [RUN, WRITE, READ]) == [
        "read write",
        "read write",
        "read write run",
    ]


def test_a_missing_tool_leaves_the_others_in_order() -> None:
    assert names([READ, WRITE, RUN], [RUN, READ]) == ["read write run", "read run"]


def test_keys_stand_as_first_seen() -> None:
    one = tool("read", description="Reads.", parameters={"a": 1, "b": {"c": 2, "d": 3}})
    other = tool("read", parameters={"b": {"d": 3, "c": 2}, "a": 1}, description="Reads.")
    found = tools_after(chat(0, user("?"), tools=[one]), chat(1, user("?"), tools=[other]))
    assert json.dumps(found[1]) == json.dumps(found[0]) == json.dumps([one])


def test_other_schemas_of_one_name_stay_different() -> None:
    one, other = tool("read", parameters={"a": [1, 2]}), tool("read", parameters={"a": [2, 1]})
    assert tools_after(chat(0, user("?"), tools=[one]), chat(1, user("?"), tools=[other])) == [
        [one],
        [other],
    ]


def call(arguments: str, call_id: str = "c1") -> dict[str, Any]:
    function = {"name": "read", "arguments": arguments}
    return assistant("", tool_calls=[{"id": call_id, "type": "function", "function": function}])


def arguments_after(*calls: dict[str, Any]) -> list[str]:
    requests = [chat(n, user("?"), one) for n, one in enumerate(calls)]
    found = rewritten(in_first_order, lambda: requests)
    return [messages[1]["tool_calls"][0]["function"]["arguments"] for messages in found]


def test_a_repeated_call_keeps_the_text_of_its_arguments() -> None:
    first = '{"b": 1, "a": "x"}'
    assert arguments_after(call(first), call('{"a":"x","b":1}')) == [first, first]


def test_the_reply_is_the_first_text() -> None:
    first = '{"b":1,"a":2}'
    requests = [
        chat(0, user("?"), reply=call(first)),
        chat(1, user("?"), call('{"a": 2, "b": 1}')),
    ]
    found = rewritten(in_first_order, lambda: requests)
    assert found[1][1]["tool_calls"][0]["function"]["arguments"] == first


def test_arguments_that_are_not_the_same_stay() -> None:
    for first, second in [
        ('{"a": 1}', '{"a": 1.0}'),  # another number for some parsers
        ('{"a": 1, "a": 2}', '{"a": 2}'),  # a key that is there twice
        ("read it", "read  it"),  # no JSON
        ("[1, 2]", "[2, 1]"),
    ]:
        assert arguments_after(call(first), call(second)) == [first, second]
    assert arguments_after(call('{"a":1}', "c1"), call('{"a": 1}', "c2"))[1] == '{"a": 1}'


def test_a_trace_in_order_is_left_as_it_is() -> None:
    requests = [chat(n, user("?"), call('{"a": 1}'), tools=[READ, WRITE]) for n in range(3)]
    assert all(new is old for new, old in zip(in_first_order(lambda: requests), requests))
