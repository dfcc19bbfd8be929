"""Files as people have them: packed, marked, piped, broken."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import blocks, opened, refused, write_rows

from kvtool.errors import InputError
from kvtool.traces.json_list import json_list
from kvtool.traces.open_trace import open_trace
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.trace_file import TraceFile

ROWS = [blocks(1, 2, tokens=1000), blocks(1, 3, tokens=1024)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab[]{},"\\'), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text("abc", min_size=1), values, min_size=1, max_size=4)


def ids_of(data: bytes, folder: Path) -> list[tuple[int | str, ...]]:
    path = folder / "trace"
    path.write_bytes(data)
    return [r.prompt.hash_ids for r in open_trace([path], trace_block_size=512)]  # type: ignore[union-attr]


@pytest.mark.report("S57")
@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode().rstrip(b"\n"),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\n\n  \n").encode(),
        gzip.compress(TEXT.encode(), mtime=0),
        gzip.compress(b"\xef\xbb\xbf" + TEXT.encode(), mtime=0),
        json.dumps(ROWS).encode(),
        b"\xef\xbb\xbf" + json.dumps(ROWS, indent=2).encode(),
        ("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n").encode(),
    ],
    ids=[
        "lines",
        "no last end",
        "mark",
        "crlf",
        "blank",
        "gz",
        "gz mark",
        "list",
        "pretty",
        "rows",
    ],
)
def test_the_same_requests_however_they_are_written(data: bytes, tmp_path: Path) -> None:
    assert ids_of(data, tmp_path) == [(1, 2), (1, 3)]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_as_often_as_needed(packed: bool) -> None:
    data = gzip.compress(TEXT.encode()) if packed else TEXT.encode()
    trace = open_trace(["-"], trace_block_size=512, stdin=io.BytesIO(data))
    assert [str(r.place) for r in trace] == ["standard input:1", "standard input:2"]
    assert len(list(trace)) == 2


def test_a_pipe_is_read_as_often_as_needed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TEXT,))
    writer.start()
    trace = open_trace([pipe], trace_block_size=512)
    writer.join()
    assert [len(list(trace)), len(list(trace))] == [2, 2]


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    long = {"timestamp": 0, "text_input": "x" * 10_000_000, "output_length": 1}
    (request,) = opened(tmp_path, long)
    assert len(request.prompt.text) == 10_000_000  # type: ignore[union-attr]


@settings(max_examples=100)
@given(st.lists(objects, min_size=1, max_size=5), st.sampled_from([None, 1]))
def test_lines_and_lists_hold_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], indent: int | None
) -> None:
    folder = tmp_path_factory.mktemp("records")
    by_line = TraceFile("lines", write_rows(folder / "lines", rows))
    (folder / "list").write_text(json.dumps(rows, indent=indent))
    in_list = TraceFile("list", folder / "list")
    for file in (by_line, in_list):
        read = list(file.records(ReadLog()))
        assert [record.value for record in read] == rows
        assert [record.place.line for record in read] == list(range(1, len(rows) + 1))
    one = json.dumps(rows[0], indent=indent)
    (folder / "document").write_text(one)
    (record,) = TraceFile("document", folder / "document").records(ReadLog())
    assert record.value == rows[0]


@settings(max_examples=60)
@given(st.lists(values, max_size=5), st.integers(1, 7))
def test_a_list_is_read_in_pieces(elements: list[object], size: int) -> None:
    class Slow(io.StringIO):
        def read(self, _: int | None = -1) -> str:
            return super().read(size)

    assert [json.loads(text) for text in json_list(Slow(json.dumps(elements)))] == elements


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1, 2", 2), ("[1 2]", 1), ("[1, 2] 3", 2), ("[1,]", 1), ("[", 0), ("[1, tru", 1),
        ('[1, "ab', 1), ("[1, {]", 1), ("[,1]", 0),
    ],
)  # fmt: skip
def test_a_broken_list_gives_what_is_in_front_of_the_fault(text: str, found: int) -> None:
    elements = json_list(io.StringIO(text))
    read = []
    with pytest.raises(BadRecord):
        for element in elements:
            read.append(element)
    assert len(read) == found


@pytest.mark.report("S57")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 0, "input_length": 2748 610}', "delimiter at column 39"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"timestamp": NaN}', "NaN is not a JSON number"),
        ('{"timestamp": 1e999}', "too large a number"),
        ("[" * 200 + "]" * 200, "nested too deeply"),
        ("hello", "Expecting value at column 1"),
    ],
)
def test_a_bad_line_stops_with_its_place_and_reason(line: str, reason: str, tmp_path: Path) -> None:
    message = refused(tmp_path, ROWS[0], "", line)
    assert message.startswith("trace.jsonl:3: ")
    assert reason in message


@pytest.mark.report("S57")
def test_lenient_skips_and_counts_by_reason(tmp_path: Path) -> None:
    rows = [ROWS[0], "hello", "[]", "nope", {"hash_ids": [1]}, ROWS[1]]
    trace = opened(tmp_path, *rows, lenient=True, trace_block_size=512)
    assert len(trace) == 2
    assert [r.place.line for r in trace] == [1, 6]
    assert trace.skipped == {
        "the record is not JSON": 2,
        "the record is not a JSON object": 1,
        "input_length is missing": 1,
    }


@pytest.mark.report("S61")
def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(TEXT.encode() + b'{"hash_ids": ["\x9d"]}\n')
    with pytest.raises(InputError, match=r"^trace.jsonl:3: the record is not UTF-8 text: byte 16"):
        open_trace([path], trace_block_size=512)
    trace = open_trace([path], trace_block_size=512, lenient=True)
    assert trace.skipped == {"the record is not UTF-8 text": 1}


@pytest.mark.report("S61")
def test_lone_surrogates_are_replaced_and_said(tmp_path: Path) -> None:
    row = '{"timestamp": 0, "text_input": "a\\ud83d b\\uDC9d \\ud83d\\ude00", "output_length": 1}'
    trace = opened(tmp_path, row)
    assert next(iter(trace)).prompt.text == "a\ufffd b\ufffd \U0001f600"  # type: ignore[union-attr]
    assert (
        "Lone surrogates in text were replaced by U+FFFD (1 record, the first at trace.jsonl:1)."
        in trace.warnings
    )


@pytest.mark.report("S62")
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"empty\.jsonl is empty"):
        open_trace([path])


@pytest.mark.report("S62")
def test_a_trace_of_which_nothing_is_left(tmp_path: Path) -> None:
    message = refused(tmp_path, blocks(1, tokens=0), blocks(2, tokens=-1), lenient=True)
    assert "all records were skipped: input_length must be a whole number from 1 (2)" in message


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{}".encode("utf-16"), "UTF-16"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], "damaged gzip"),
        (gzip.compress(TEXT.encode(), mtime=0)[:20] + b"\xff" * 20, "damaged gzip"),
    ],
)
def test_files_that_cannot_be_unpacked(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(InputError, match=reason):
        open_trace([path])


def test_a_document_that_ends_too_early(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{\n "block_size": 64,\n "requests": [')
    with pytest.raises(InputError, match=r"trace\.json"):
        open_trace([path])


def test_names_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_trace([tmp_path / "none.jsonl"])
    with pytest.raises(InputError, match="holds no trace"):
        open_trace([tmp_path])
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(InputError, match="named twice"):
        open_trace([path, path])
