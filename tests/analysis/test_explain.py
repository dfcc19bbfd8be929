"""`--explain`: one request, its spans, and where and why it parts from the one before."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.caused import Caused, Chats, caused, said, words
from replay.prepared_requests import prepared

from kvtool.analysis.explain import HASH_IDS, explain
from kvtool.errors import InputError
from kvtool.traces.prepared import Unit

IDS = Unit(16, 1)


def explained(result: Caused, request_id: str, chats: Chats | None = None) -> dict[str, Any]:
    decode = chats.rendering.decode if chats else None
    return explain(
        result.requests, request_id, result.served, result.accesses, result.settings, decode
    ).as_json()


def with_clock(*times: str) -> Chats:
    chats = Chats()
    for now in times:
        clock = said("system", "You", "help.", "Current", "time:", now, *words("sys", 40))
        chats.ask([clock, said("user", *words(now, 3))])
    return chats


@pytest.mark.report("S08")
def test_a_clock_in_the_system_prompt() -> None:
    chats = with_clock("10:00:01", "10:00:02", "10:00:03")
    found = explained(caused(chats.requests, 200), "r2", chats)
    difference = found["first_difference"]
    assert difference["token"] == found["hit_tokens"] == 1 + 4
    assert (difference["message"], difference["field"], difference["role"]) == (
        0,
        "content",
        "system",
    )
    assert difference["previous_id"] == "r1"
    assert (difference["expected"], difference["found"]) == ("10:00:02 ", "10:00:03 ")
    assert difference["expected_window"].startswith("<|system|>\nYou help. Current time: 10:00:02 ")
    assert difference["found_window"].startswith(
        "<|system|>\nYou help. Current time: 10:00:03 sys0"
    )
    assert difference["pattern"] == "time"
    assert found["causes"] == {"context_rewritten": 41 + 2, "first_sight": 3 + 2}
    assert found["rewritten"]["role"] == "system"
    assert "10:00:02" in found["rewritten"]["old"] and "10:00:03" in found["rewritten"]["new"]
    assert found["would_be_hit_rate"] == (5 + 43) / found["prompt_tokens"]
    assert "time" in found["advice"]


@pytest.mark.report("S09")
@pytest.mark.parametrize(
    ("tools", "pattern"),
    [
        ([{"type": "function", "name": "a"}, {"type": "function", "name": "b"}], "order of tools"),
        ([{"name": "b", "type": "function"}, {"name": "a", "type": "function"}], "order of keys"),
    ],
)
def test_tools_in_another_order(tools: list[dict[str, str]], pattern: str) -> None:
    first = [{"type": "function", "name": "b"}, {"type": "function", "name": "a"}]
    chats, system = Chats(), said("system", *words("sys", 20))
    for order in (first, tools):
        chats.ask([system, said("user", "go")], tools=order)
    found = explained(caused(chats.requests, 200), "r1", chats)
    assert found["first_difference"]["field"] == "tools"
    assert found["first_difference"]["message"] == -1
    assert found["first_difference"]["pattern"] == pattern
    assert found["main_cause"] == "context_rewritten"
    assert "same order" in found["advice"]


@pytest.mark.report("S11")
def test_thinking_that_the_client_strips() -> None:
    chats, spoken = Chats(), words("answer", 6)
    question = [said("system", *words("sys", 20)), said("user", *words("q", 3))]
    thinking = " ".join(words("hmm", 4))
    chats.ask(question, reply={"content": " ".join(spoken), "reasoning_content": thinking})
    chats.ask([*question, said("assistant", *spoken), said("user", "more")])
    result = caused(chats.requests, 200, output_kv=True)
    found = explained(result, "r1", chats)
    assert found["main_cause"] == "reply_rerendered"
    assert (
        found["hit_tokens"] == found["first_difference"]["token"] == len(chats.requests[0].symbols)
    )
    assert found["first_difference"]["expected"] == "<think>\n"
    assert found["first_difference"]["found"] == "answer0 "
    assert found["first_difference"]["role"] == "assistant"
    assert thinking in found["rewritten"]["old"] and thinking not in found["rewritten"]["new"]


def test_spans_tile_the_prompt() -> None:
    chats = with_clock("10:00:01", "10:00:02")
    found = explained(caused(chats.requests, 200), "r1", chats)
    spans = found["spans"]
    assert [span["kind"] for span in spans] == ["hit", "miss", "miss"]
    assert [span["start"] for span in spans] == [0, *(span["stop"] for span in spans[:-1])]
    assert spans[-1]["stop"] == found["prompt_tokens"]
    assert [span["cause"] for span in spans] == [None, "context_rewritten", "first_sight"]
    assert [span["message"] for span in spans] == [0, 0, 1]
    assert set(found["definitions"]) == set(found["causes"])


def test_moved_text_is_a_span_of_its_own() -> None:
    requests = [prepared(0, range(16)), prepared(1, [99, *range(16)])]
    result = caused(requests, 200, cache={"reuse": "shift"})
    spans = explained(result, "r1")["spans"]
    assert [(s["start"], s["stop"], s["kind"]) for s in spans] == [
        (0, 1, "miss"),
        (1, 16, "shift"),
        (16, 17, "miss"),
    ]


def test_the_longest_shared_beginning_is_compared_with() -> None:
    prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9], [7], [1, 2, 3, 4, 8]]
    result = caused([prepared(i, prompt) for i, prompt in enumerate(prompts)], 200)
    found = explained(result, "r3")
    assert found["compared_with"] == {
        "id": "r0",
        "place": "trace.jsonl:1",
        "shared_tokens": 4,
        "same_session": False,
        "same_namespace": True,
    }
    assert found["first_difference"]["token"] == 4


def test_the_other_namespace_is_named() -> None:
    requests = [prepared(i, range(8), namespace=bytes([i])) for i in range(2)]
    found = explained(caused(requests, 200), "r1")
    assert found["compared_with"]["same_namespace"] is False
    assert found["first_difference"] is None
    assert found["main_cause"] == "other_namespace"


def test_capacity_of_evicted_ids() -> None:
    prompts = [[1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]]
    requests = [prepared(i, prompt, unit=IDS) for i, prompt in enumerate(prompts)]
    found = explained(caused(requests, 3, unit=IDS), "r3")
    assert found["capacity_blocks"] == 6
    assert found["advice"] == "A cache of 6 blocks would still have had it with LRU."
    assert found["would_be_hit_rate"] == 1
    assert found["notes"] == [HASH_IDS]


def test_the_first_request_has_nothing_to_be_compared_with() -> None:
    found = explained(caused([prepared(0, range(8))], 200), "r0")
    assert found["compared_with"] is None and found["first_difference"] is None
    assert found["would_be_hit_rate"] is None and found["capacity_blocks"] is None


def test_an_unknown_id_names_those_near_it() -> None:
    result = caused([prepared(i, [i]) for i in range(12)], 200)
    with pytest.raises(InputError, match="No request has the id 'r99'; the trace has 12") as error:
        explained(result, "r99")
    assert error.value.hint is not None and "r9" in error.value.hint
