"""What a trace promises whatever its format: order, ids, one kind, warnings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import Row, blocks, opened, refused, write_rows

from kvtool.errors import ConfigError, InputError
from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.warnings import of_serial_replay


def said(trace: Trace, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in trace.warnings)


def opened_files(folder: Path, *files: list[Row], **options: Any) -> Trace:
    paths = [write_rows(folder / f"{name}.jsonl", rows) for name, rows in zip("abcd", files)]
    return open_trace(paths, trace_block_size=512, **options)


@settings(max_examples=80)
@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=8), min_size=1, max_size=3))
def test_requests_come_in_the_order_of_time_and_ties_in_that_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]]
) -> None:
    rows = [[blocks(1, timestamp=1000 * t) for t in times] for times in files]
    trace = opened_files(tmp_path_factory.mktemp("order"), *rows)
    written = [(t, file, line) for file, times in enumerate(files) for line, t in enumerate(times)]
    expected = sorted(range(len(written)), key=lambda i: (written[i][0], i))
    for _ in range(2):
        read = list(trace.indexed())
        assert [position for position, _ in read] == expected
        origin = min(t for t, _, _ in written)
        assert [r.arrival_s for _, r in read] == [written[i][0] - origin for i in expected]
    assert len(trace) == len(written)
    assert len({request.id for request in trace}) == len(written)


def test_time_that_runs_backwards_is_said(tmp_path: Path) -> None:
    trace = opened(tmp_path, blocks(1, timestamp=9), blocks(1, timestamp=4), trace_block_size=512)
    assert [r.place.line for r in trace] == [2, 1]
    assert said(trace, "backwards at 1 requests, first at trace.jsonl:2", "order of time")


def test_without_times_files_are_taken_one_after_another(tmp_path: Path) -> None:
    first, second = blocks(1, timestamp=None), blocks(2, timestamp=5)
    trace = opened_files(tmp_path, [second, first], [second])
    assert [str(r.place) for r in trace] == ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1"]
    assert not trace.timed
    assert said(trace, "2 files are taken one after another")


@pytest.mark.parametrize("bad", [-1, "soon", [], 10**400, True])
def test_times_that_are_none(bad: object, tmp_path: Path) -> None:
    message = refused(tmp_path, blocks(1), blocks(1, timestamp=bad))
    assert message.startswith("trace.jsonl:2: timestamp must be a number from 0: it is ")


@pytest.mark.report("S30")
def test_ids_used_twice_are_told_apart(tmp_path: Path) -> None:
    ids = ["x", "x", "y", "x#2", "x"]
    trace = opened(tmp_path, *(blocks(1, request_id=id_) for id_ in ids), trace_block_size=512)
    assert [r.id for r in trace] == ["x", "x#2'", "y", "x#2", "x#3"]
    assert said(trace, "Request ids are used more than once (x)")


@pytest.mark.report("S30")
def test_ids_that_several_files_use(tmp_path: Path) -> None:
    one = [blocks(1, request_id="p"), blocks(1, request_id="q")]
    two = [blocks(1, request_id="q"), blocks(1, request_id="r")]
    trace = opened_files(tmp_path, one, two)
    assert {r.id for r in trace} == {"p", "a.jsonl:q", "b.jsonl:q", "r"}
    assert said(trace, "Several files use the same request ids (q)")


@settings(max_examples=100)
@given(st.lists(st.lists(st.sampled_from(["x", "x#2", "y", "x#2'", "b.jsonl:x"]), max_size=4)))
def test_ids_are_unique(tmp_path_factory: pytest.TempPathFactory, files: list[list[str]]) -> None:
    rows = [[blocks(1, request_id=id_) for id_ in ids] for ids in files[:3] if ids]
    if rows:
        trace = opened_files(tmp_path_factory.mktemp("ids"), *rows)
        assert len({r.id for r in trace}) == len(trace)
        assert [r.id for r in trace] == [r.id for r in trace]


def test_turns_follow_the_renamed_turn_before(tmp_path: Path) -> None:
    rows = [blocks(1, request_id=id_, session_id="s") for id_ in ("x", "x", "x")]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert [r.after for r in trace] == [(), ("x",), ("x#2",)]


def test_folders(tmp_path: Path) -> None:
    for name in ("b.jsonl", "deep/a.jsonl", ".hidden/c.jsonl", "readme.txt", "deep/b.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_rows(tmp_path / name, [blocks(1)])
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(json.dumps(blocks(1)).encode()))
    trace = open_trace([tmp_path], trace_block_size=512)
    names = [file.name for file in trace.files]
    assert names[1:] == ["d.json.gz", "a.jsonl", "deep/b.jsonl"]
    assert names[0].endswith("/b.jsonl")


def test_one_trace_has_one_format(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}], "model": "m"}
    with pytest.raises(InputError, match=r"a\.jsonl is a Mooncake trace, b\.jsonl is OpenAI"):
        opened_files(tmp_path, [blocks(1)], [chat])


def test_one_trace_has_one_kind_of_prompt(tmp_path: Path) -> None:
    text = {"timestamp": 0, "text_input": "hi", "output_length": 1}
    message = refused(tmp_path, blocks(1), text)
    assert message.startswith("trace.jsonl:2: another kind of prompt than before")
    trace = opened(tmp_path, blocks(1), text, lenient=True, trace_block_size=512)
    assert [r.place.line for r in trace] == [1]
    assert trace.skipped == {"another kind of prompt than before": 1}


def test_unknown_formats_and_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Unknown trace format 'moncake'"):
        opened(tmp_path, blocks(1), input_format="moncake")
    with pytest.raises(InputError) as error:
        opened(tmp_path, {"apples": 3, "pears": 4})
    assert "no trace format that kvtool knows: its first record has apples, pears" in str(
        error.value
    )
    assert "--input-format" in (error.value.hint or "")
    with pytest.raises(InputError, match="it starts with 'some prose'"):
        opened(tmp_path, "some prose")


def test_a_named_format_is_not_second_guessed(tmp_path: Path) -> None:
    trace = opened(tmp_path, blocks(1), input_format="mooncake", trace_block_size=512)
    assert trace.why == "--input-format says so"
    message = refused(tmp_path, blocks(1), input_format="weka")
    assert message == "trace.jsonl:1: block_size is missing."


def test_the_block_size_is_given_found_or_asked_for(tmp_path: Path) -> None:
    many = blocks(*range(30), tokens=29 * 512 + 1)
    found = opened(tmp_path, blocks(1), many)
    assert found.block_size == 512
    assert said(found, "does not state its block size; 512 tokens is the one size")
    assert not said(opened(tmp_path, many, trace_block_size=512), "block size")
    assert "every size from 256 to 511 tokens fits it" in refused(
        tmp_path, blocks(1, 2, tokens=512)
    )
    message = refused(tmp_path, blocks(1), trace_block_size=256)
    assert message == (
        "trace.jsonl:1: the number of hash ids does not fit the number of tokens: "
        "512 tokens in blocks of 256 need 2 ids, there are 1."
    )


@pytest.mark.report("S58")
def test_ids_that_follow_several_others_name_contents(tmp_path: Path) -> None:
    chained = opened(tmp_path, blocks(1, 2, 3), blocks(1, 2, 4), trace_block_size=512)
    assert chained.several_predecessors == 0
    assert said(chained, "ids are chained hashes", "not measurable")
    several = opened(tmp_path, blocks(1, 2, 3), blocks(2, 3), trace_block_size=512)
    assert several.several_predecessors == 1  # 2 is first once, and once behind 1
    assert said(several, "1 hash ids follow more than one other")


def test_requests_in_flight_at_once(tmp_path: Path) -> None:
    rows = [blocks(1, timestamp=t) for t in (0, 0, 5, 5, 9)]
    (told,) = of_serial_replay(opened(tmp_path, *rows, trace_block_size=512).survey)
    assert "2 of 5 requests arrive while" in told


def test_models_and_lone_requests(tmp_path: Path) -> None:
    rows = [blocks(1, model="a"), blocks(1, model="b"), blocks(1)]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert said(trace, "different models never share: a (1), b (1), unnamed (1)")
    assert said(opened(tmp_path, blocks(1), trace_block_size=512), "one request")


def test_chats_without_a_system_prompt(tmp_path: Path) -> None:
    user, system = {"role": "user", "content": "hi"}, {"role": "developer", "content": "Be."}
    rows = [{"messages": m, "output_length": 1} for m in ([user], [system, user])]
    assert said(opened(tmp_path, *rows), "1 of 2 requests have no system prompt")


def test_a_link_to_a_request_that_is_not_there(tmp_path: Path) -> None:
    rows = [
        blocks(1, request_id="a", wait_for=[]),
        blocks(1, request_id="b", wait_for=["a", "gone"]),
    ]
    message = refused(tmp_path, *rows, trace_block_size=512)
    assert message == ("trace.jsonl:2: the request waits for 'gone', and no request has this id.")
    trace = opened(tmp_path, *rows, trace_block_size=512, lenient=True)
    assert [r.after for r in trace] == [(), ("a",)]
    assert trace.skipped == {"a link to a request that is not there": 1}


@pytest.mark.parametrize("waits", [["a"], ["b"]])
def test_requests_that_wait_for_each_other(waits: list[str], tmp_path: Path) -> None:
    rows = [
        blocks(1, request_id="a", wait_for=waits),
        blocks(1, request_id="b", wait_for=["a"]),
    ]
    message = refused(tmp_path, *rows, trace_block_size=512)
    assert message.startswith("Requests wait for each other: a → ")


def test_waiting_for_a_request_further_down(tmp_path: Path) -> None:
    rows = [blocks(1, request_id="a", wait_for=["b"]), blocks(1, request_id="b")]
    trace = opened(tmp_path, *rows, trace_block_size=512)
    assert [(r.id, r.after) for r in trace] == [("a", ("b",)), ("b", ())]
