"""What is advised on whole traces, and what it gains."""

import json
from pathlib import Path
from typing import Any

import pytest
from advice.chat_traces import (
    EXAMPLES,
    PLENTY,
    advised,
    assistant,
    opened,
    served,
    system,
    user,
    words,
    workload,
)

from kvtool.advice.advice import Advice, Figures
from kvtool.advice.advise import not_advised

TEXT = ("tool-order", "volatile-fields", "stable-first", "compaction", "combination")
GAINS = {
    "append": {},
    "truncation": {"compaction": 184},
    "upload-first": {"stable-first": 1392},
    "agents": {"volatile-fields": 1834, "stable-first": 2989, "combination": 3115},
}


@pytest.mark.parametrize("name", GAINS)
def test_examples(name: str) -> None:
    load = opened(EXAMPLES / f"{name}.jsonl")
    found = advised(load)
    assert {id: found[id].gain_tokens for id in TEXT if id in found} == GAINS[name]
    assert [advice.gain_tokens for advice in found.values()] == sorted(
        (advice.gain_tokens for advice in found.values()), reverse=True
    )


def clock_row(n: int) -> dict[str, Any]:
    clock = f"Time: 08:{n:02}:00."
    return {"messages": [system(f"{clock} You read {words(64)}."), user("Hi.")], "timestamp": n}


def test_a_clock_in_front_of_everything(tmp_path: Path) -> None:
    load = workload(tmp_path, [clock_row(n) for n in range(10, 14)])
    found = advised(load)["volatile-fields"]
    assert "clock" in found.title
    before, after = served(load), found.after
    assert Figures.of(before) == found.before
    assert after.prompt_tokens - after.computed_tokens == after.hit_tokens
    assert found.gain_tokens == found.before.computed_tokens - after.computed_tokens
    # All but the clock, what follows it, and the first request.
    assert after.hit_tokens > 3 * 64


def test_shuffled_tools(tmp_path: Path) -> None:
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "description": words(40, 100 * n)}}
        for n in range(3)
    ]
    rows = [
        {"messages": [user(f"Hi {n}.")], "tools": tools[n:] + tools[:n], "timestamp": n}
        for n in range(3)
    ]
    found = advised(workload(tmp_path, rows))["tool-order"]
    assert found.before.hit_tokens < 40
    assert found.after.hit_tokens > 2 * 3 * 40
    assert found.diff is not None and "[tool]" in found.diff


def test_two_that_gain_nothing_alone_are_found_together(tmp_path: Path) -> None:
    """The clock at the very beginning hides the shared text, and so does the upload."""
    rows = []
    for n in range(10, 14):
        text = f"Time: 08:{n}:00.\n\nUpload {words(30, 100 * n)}.\n\nRules {words(64)}."
        rows.append({"messages": [system(text), user("Hi.")], "timestamp": n})
    found = advised(workload(tmp_path, rows))
    assert "volatile-fields" not in found
    assert found["stable-first"].gain_tokens > 3 * 64


def test_no_gain_no_advice(tmp_path: Path) -> None:
    rows = [{"messages": [user(words(50, 100 * n))], "timestamp": n} for n in range(5)]
    assert advised(workload(tmp_path, rows)) == {}


def test_hash_ids_cannot_be_put_in_order(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
    load = workload(tmp_path, [row])
    assert advised(load) == {}
    (reason,) = not_advised(load).values()
    assert "not measurable on this trace" in reason and "hash ids" in reason


def test_flat_prompts_have_no_messages(tmp_path: Path) -> None:
    rows = [
        {"timestamp": "1000000", "input": words(40), "output": "Hi.", "session_id": "s"},
        {"timestamp": "2000000", "input": words(41), "output": "Hi.", "session_id": "s"},
    ]
    load = workload(tmp_path, rows)
    assert {advice.rewrite for advice in advised(load).values()} <= {None}
    assert "messages" in not_advised(load)["rewriting_advice"]


def test_a_large_trace_is_not_replayed_unasked() -> None:
    load = opened(EXAMPLES / "agents.jsonl")
    assert advised(load, max_requests=7) == {}
    reason = "the trace has 8 requests; advice is replayed up to 7"
    assert not_advised(load, max_requests=7) == {"advice": reason}
    assert not_advised(load) == {}
    assert "combination" in advised(load, max_requests=8)


def test_the_document_entry() -> None:
    found = advised(opened(EXAMPLES / "agents.jsonl"), num_blocks=PLENTY)["volatile-fields"]
    entry = json.loads(json.dumps(found.as_json()))
    assert set(entry) == {
        *("id", "title", "why", "parts", "before", "after", "gain_tokens"),
        *("diff", "command"),
    }
    assert entry["gain_tokens"] == 1834
    assert entry["before"]["hit_rate"] == entry["before"]["reused_rate"] == 75 / 4013
    assert "+Time: 08:15:02." in entry["diff"].splitlines()


def test_system_messages_in_the_middle_are_no_prefix(tmp_path: Path) -> None:
    rows = [
        {
            "messages": [user(words(40)), assistant("Yes."), system(f"Time: 08:1{n}. Be short.")],
            "timestamp": n,
        }
        for n in range(3)
    ]
    assert not any(
        isinstance(a, Advice) and a.rewrite for a in advised(workload(tmp_path, rows)).values()
    )
