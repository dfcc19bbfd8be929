"""A trace, exported and read again, gives the same report."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report.replayed import EXAMPLES, TRACES, simulated

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError, InputError
from kvtool.report.exports.export import EXPORTS, export
from kvtool.simulation.document import document
from kvtool.simulation.simulation import Simulation
from kvtool.traces.open_trace import open_trace

SALT = b"salt of this test"
CAPACITIES = (3, 7, 20)
HASHED = ("mooncake", "weka")
# What chained ids cannot tell of text: it is new to them.
OF_CONTENT = {"first_sight", "diverged", "context_rewritten", "reply_rerendered"}
OF_CONTENT |= {"truncated_window", "other_namespace", "partial_block", "below_block_floor"}


def settings_of(kv_blocks: int = 400, **more: Any) -> dict[str, Any]:
    """Text is found by whole blocks, as hash ids are. Ample for text, whose rests take up blocks
    of the pool that hash ids do not have."""
    engine = EngineConfig(kv_blocks=kv_blocks, prefix_index="chain")
    return {"engine": engine, "capacities": CAPACITIES, "advice": False, **more}


def write_blocks(path: Path) -> Path:
    """Three conversations that share a head and take turns; the last prompt ends in a block."""
    heads = {"a": [1, 2, 3], "b": [1, 2, 4, 5], "c": [1, 6]}
    rows = []
    for turn in range(3):
        for number, (session, head) in enumerate(heads.items()):
            ids = head + [100 * (number + 1) + step for step in range(turn)]
            length = 512 * len(ids) - (12 if len(rows) == 8 else 0)
            row = {"timestamp": 1000 * len(rows), "session_id": session, "block_size": 512}
            rows.append(row | {"input_length": length, "output_length": 20, "hash_ids": ids})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def exported(source: Simulation, format: str, path: Path, salt: bytes | None = SALT) -> Path:
    assert export(format, source.workload, path, salt) == len(source.workload)
    return path


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """What any re-import must give."""
    curve = [{k: v for k, v in row.items() if k != "capacity_bytes"} for row in found["curve"]]
    replay = {k: found["replay"][k] for k in ("hit_tokens", "evicted_blocks", "duration_s")}
    sessions = [
        {k: v for k, v in row.items() if k != "missed_by_cause"} for row in found["sessions"]
    ]
    for row in sessions:
        row["session"] = row["session"] is not None
    source = ("requests", "block_size", "prompt_tokens", "output_tokens", "sessions", "models")
    return {
        "input": {key: found["input"][key] for key in source},
        "hit_rates": found["hit_rates"],
        "lru_curve": found["lru_curve"],
        "curve": curve,
        "replay": replay,
        "sessions": sorted(map(str, sessions)),
        # The order of the file, and of ties, is not WEKA's: it groups by session.
        "stability": found["stability"][0],
    }


def merged_causes(found: dict[str, Any]) -> Counter[str]:
    """Those that look into text are one."""
    causes: Counter[str] = Counter()
    for name, tokens in found["misses"]["causes"].items():
        causes["content" if name in OF_CONTENT else name] += tokens
    return +causes


def approximately(found: Any) -> Any:
    """Times in milliseconds come back to the nanosecond."""
    return {**found, "replay": pytest.approx(found["replay"])}


@pytest.mark.parametrize("format", HASHED)
@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("kv_blocks", [7, 400])
def test_hash_ids_give_the_same_report_with_all_causes(
    kv_blocks: int, mode: str, format: str, tmp_path: Path
) -> None:
    options = settings_of(kv_blocks, mode=mode)
    source = simulated(write_blocks(tmp_path / "in.jsonl"), **options)
    again = simulated(exported(source, format, tmp_path / "out.jsonl"), **options)
    before, after = document(source), document(again)
    assert figures(after) == approximately(figures(before))
    assert after["misses"]["causes"] == before["misses"]["causes"]
    assert [row["found_tokens"] for row in after["schemes"]] == [
        row["found_tokens"] for row in before["schemes"]
    ]


@pytest.mark.parametrize("format", HASHED)
@pytest.mark.parametrize("name", EXAMPLES)
def test_hashed_text_gives_the_same_rates(name: str, format: str, tmp_path: Path) -> None:
    source = simulated(TRACES / f"{name}.jsonl", **settings_of())
    again = simulated(exported(source, format, tmp_path / "out.jsonl"), **settings_of())
    before, after = document(source), document(again)
    assert figures(after) == approximately(figures(before))
    assert merged_causes(after) == merged_causes(before)
    assert again.workload.unit == (16, 1)


@pytest.mark.parametrize("mode", ["serial", "arrival"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_text_gives_the_same_document(name: str, mode: str, tmp_path: Path) -> None:
    options = {"mode": mode, "output_kv": True, "engine": EngineConfig(kv_blocks=70)}
    source = simulated(TRACES / f"{name}.jsonl", **options)
    again = simulated(exported(source, "openai", tmp_path / f"{name}.jsonl"), **options)
    before, after = document(source), document(again)
    assert after["input"].pop("why") and before["input"].pop("why")
    for found in (before, after):
        for row in found["misses"]["top_requests"]:
            row.pop("place")
    assert after == before


@pytest.mark.parametrize("format", HASHED)
def test_times_and_waiting_survive(format: str, tmp_path: Path) -> None:
    """By arrival: who waits for whom, and for how long."""
    rows = [
        {"messages": chat("a"), "timestamp": 0.0, "session_id": "s", "id": "one"},
        {"messages": chat("b"), "timestamp": 0.0, "id": "two", "kvtool": {"after": ["one"]}},
        {
            "messages": chat("a", "c"),
            "timestamp": 0.25,
            "session_id": "s",
            "id": "three",
            "kvtool": {"after": ["one", "two"], "delay_s": 1.5, "priority": -3},
            "response": {"usage": {"completion_tokens": 40, "prompt_tokens": 80}},
        },
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"kvtool": {}} | row) + "\n" for row in rows))
    options = settings_of(mode="arrival")
    source = simulated(path, **options)
    again = simulated(exported(source, format, tmp_path / "out.jsonl"), **options)
    for old, new in zip(source.workload.trace, again.workload.trace):
        assert new.arrival_s == pytest.approx(old.arrival_s, abs=1e-9)
        assert (new.delay_s, new.priority) == (old.delay_s, old.priority)
        assert (len(new.after), new.session is None) == (len(old.after), old.session is None)
        assert new.output_tokens == (old.output_tokens or 0)
    times = [(one.start_s, one.end_s) for one in source.serving.served]
    assert [(one.start_s, one.end_s) for one in again.serving.served] == [
        pytest.approx(pair) for pair in times
    ]


def chat(*words: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{word} " * 40} for word in words]


@pytest.mark.parametrize("format", HASHED)
@pytest.mark.parametrize("field", ["model", "adapter", "salt"])
def test_namespaces_stay_apart(field: str, format: str, tmp_path: Path) -> None:
    """Also for a reader that looks at the ids alone."""
    rows = []
    for number, value in enumerate(("x", "y", "x", None)):
        own = {} if field == "model" else {field: value}
        row = {"messages": chat("same"), "timestamp": number, "kvtool": own}
        rows.append(row | ({"model": value} if field == "model" else {}))
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = simulated(path, **settings_of())
    out = exported(source, format, tmp_path / "out.jsonl")
    assert document(source)["replay"]["hit_tokens"] > 0
    assert figures(document(simulated(out, **settings_of()))) == figures(document(source))
    ids = [tuple(request.prompt.hash_ids) for request in open_trace([out])]
    assert ids[0] == ids[2]
    assert not set(ids[0]) & set(ids[1]) and not set(ids[0]) & set(ids[3])
    assert not set(ids[1]) & set(ids[3])


@pytest.mark.parametrize("format", HASHED)
def test_no_text_and_no_name_but_the_models_leaves(format: str, tmp_path: Path) -> None:
    rows = [
        {
            "id": "request-of-eve",
            "messages": chat("secret"),
            "timestamp": 0,
            "session_id": "eve@example.org",
            "model": "llama",
            "kvtool": {"adapter": "eves-adapter", "salt": "eves-salt"},
            "response": {"choices": [{"message": {"role": "assistant", "content": "whisper"}}]},
        }
    ]
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(rows[0]) + "\n")
    text = exported(simulated(path, **settings_of()), format, tmp_path / "out.jsonl").read_text()
    assert "llama" in text
    assert not any(word in text for word in ("secret", "whisper", "eve", "user", "messages"))


def test_ids_differ_with_every_salt_and_agree_under_one(tmp_path: Path) -> None:
    source = simulated(TRACES / "append.jsonl", **settings_of())

    def ids(salt: bytes | None) -> list[Any]:
        path = exported(source, "mooncake", tmp_path / "out.jsonl", salt)
        return [json.loads(line)["hash_ids"] for line in path.read_text().splitlines()]

    assert ids(SALT) == ids(SALT)
    assert ids(None) != ids(None)
    flat = {one for row in ids(None) for one in row}
    assert all(0 <= one < 2**63 for one in flat)


def test_a_rest_has_an_id_for_other_readers(tmp_path: Path) -> None:
    """ceil(tokens / block size) ids a row, which other tools check."""
    source = simulated(TRACES / "append.jsonl", **settings_of())
    path = exported(source, "mooncake", tmp_path / "out.jsonl")
    for line in path.read_text().splitlines():
        row = json.loads(line)
        assert len(row["hash_ids"]) == -(-row["input_length"] // row["block_size"])


def test_sessions_of_weka_are_whole(tmp_path: Path) -> None:
    source = simulated(write_blocks(tmp_path / "in.jsonl"), **settings_of())
    path = exported(source, "weka", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [len(session["requests"]) for session in found] == [3, 3, 3]
    assert {session["block_size"] for session in found} == {512}


def test_a_session_name_that_comes_back_from_weka_is_one_session(tmp_path: Path) -> None:
    """Requests of no session stay of none, each in a document of its own."""
    rows = [{"messages": chat(word), "timestamp": 0, "kvtool": {}} for word in "abc"]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = simulated(path, **settings_of())
    out = exported(source, "weka", tmp_path / "out.jsonl")
    assert len(out.read_text().splitlines()) == 3
    assert [request.session for request in open_trace([out])] == [None] * 3


def test_recorded_cached_tokens_calibrate_the_same(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 32}}
    rows = [{"messages": chat("a"), "timestamp": n, "response": {"usage": usage}} for n in range(3)]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = simulated(path, **settings_of())
    for format in EXPORTS:
        again = simulated(exported(source, format, tmp_path / f"{format}.jsonl"), **settings_of())
        assert document(again)["calibration"]["recorded"] == {
            "cached_tokens": 96,
            "prompt_tokens": 270,
            "rate": 96 / 270,
        }


def test_text_that_is_no_chat(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 1000 * n, "text_input": "word " * (40 + n), "output_length": 3}
        for n in range(3)
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = simulated(path, **settings_of())
    for format in EXPORTS:
        again = simulated(exported(source, format, tmp_path / f"{format}.jsonl"), **settings_of())
        assert figures(document(again)) == approximately(figures(document(source)))


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    blocks = simulated(write_blocks(tmp_path / "in.jsonl"), **settings_of())
    with pytest.raises(InputError, match="has no text"):
        export("openai", blocks.workload, tmp_path / "out.jsonl")
    lengths = tmp_path / "lengths.jsonl"
    lengths.write_text('{"timestamp": 0, "input_length": 40, "output_length": 2}\n')
    for format in EXPORTS:
        with pytest.raises(InputError):
            export(format, simulated(lengths, **settings_of()).workload, tmp_path / "out.jsonl")
    untimed = tmp_path / "untimed.jsonl"
    untimed.write_text(json.dumps({"messages": chat("a"), "model": "m"}) + "\n")
    with pytest.raises(InputError, match="when each request arrived"):
        export("weka", simulated(untimed, **settings_of()).workload, tmp_path / "out.jsonl")
    with pytest.raises(ConfigError, match="mooncake, weka, openai"):
        export("csv", blocks.workload, tmp_path / "out.jsonl")


ROWS = st.lists(
    st.builds(
        dict,
        prompt=st.lists(st.integers(0, 2), min_size=1, max_size=6),
        rest=st.integers(0, 511),
        gap=st.sampled_from([0, 0, 1, 1500]),
        session=st.sampled_from([None, "s", "t"]),
        model=st.sampled_from([None, "m", "n"]),
        output=st.integers(0, 30),
    ),
    min_size=1,
    max_size=14,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=ROWS, format=st.sampled_from(HASHED))
def test_any_trace_of_hash_ids(rows: list[dict[str, Any]], format: str, tmp_path: Path) -> None:
    """Ids that follow several others, partial last blocks, equal times, mixed models."""
    at, lines = 0, []
    for row in rows:
        at += row["gap"]
        length = 512 * len(row["prompt"]) - row["rest"]
        line = {"timestamp": at, "input_length": length, "output_length": row["output"]}
        line |= {"hash_ids": row["prompt"], "block_size": 512}
        line |= {key: row[short] for key, short in (("session_id", "session"), ("model", "model"))}
        lines.append(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n")
    path = tmp_path / "in.jsonl"
    path.write_text("".join(lines))
    source = simulated(path, **settings_of(7))
    again = simulated(exported(source, format, tmp_path / "out.jsonl"), **settings_of(7))
    before, after = document(source), document(again)
    assert figures(after) == approximately(figures(before))
    if len({row["model"] for row in rows}) == 1:
        assert after["misses"]["causes"] == before["misses"]["causes"]
    else:  # the same id of another model is another id now
        assert merged_causes(after) == merged_causes(before)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.lists(
        st.tuples(
            st.lists(st.sampled_from(["alpha ", "beta ", "x"]), min_size=1, max_size=30),
            st.sampled_from([None, "p", "q"]),
            st.sampled_from([None, "u"]),
        ),
        min_size=1,
        max_size=8,
    ),
    format=st.sampled_from(list(EXPORTS)),
)
def test_any_text(words: list[Any], format: str, tmp_path: Path) -> None:
    """Prompts shorter than a block among them."""
    rows = [
        {
            "messages": [{"role": "user", "content": "".join(text)}],
            "timestamp": number // 2,
            "session_id": session,
            "kvtool": {"salt": salt},
        }
        for number, (text, salt, session) in enumerate(words)
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = simulated(path, **settings_of())
    again = simulated(exported(source, format, tmp_path / "out.jsonl"), **settings_of())
    before, after = document(source), document(again)
    assert figures(after) == approximately(figures(before))
    assert merged_causes(after) == merged_causes(before)
