"""Whatever is in a file, the user gets requests or one clear error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces.files import Row, blocks, write_rows

from kvtool.errors import InputError
from kvtool.traces.formats import FORMATS
from kvtool.traces.open_trace import open_trace
from kvtool.traces.prepare import prepare, unit_of

CHAT = {"messages": [{"role": "user", "content": "hi"}], "model": "m", "tools": []}
SESSION = {"id": "s", "block_size": 64, "hash_id_scope": "local"} | {
    "requests": [
        {"t": 0, "model": "m", "in": 70, "out": 1, "hash_ids": [1], "api_time": 1},
        {"t": 1, "type": "subagent", "requests": [{"t": 0, "in": 64, "hash_ids": [2]}]},
    ]
}
BAILIAN = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 1.0, "turn": 1, "type": "text"} | {
    "input_length": 20,
    "output_length": 3,
    "hash_ids": [1, 2],
}
AGENTIC = blocks(1, 2, request_id="a", wait_for=[], branches=["b"], tool_wait_ms=3)
ROUND = {"prefix_tokens": 3, "newly_append_tokens": 4, "session_id": "s", "model": "m"}
ROWS: list[Row] = [blocks(1, 2, session_id="s", delay=3), CHAT, SESSION, BAILIAN, AGENTIC, ROUND]

junk = st.recursive(
    st.sampled_from([None, True, 0, -1, 2.5, 10**400, "", "x", "\ud83d", [], {}, "2024-01-01"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["t", "role", "content", "type", "requests"]), inner)
    ),
    max_leaves=4,
)


@st.composite
def spoiled(draw: st.DrawFn) -> Row:
    """A row of some format with junk in one of its fields, on any level, or with one left out."""
    row = json.loads(json.dumps(draw(st.sampled_from(ROWS))))
    place: Any = row
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inside = place[key]
        if isinstance(inside, dict | list) and inside and draw(st.booleans()):
            place = inside
            continue
        if draw(st.booleans()):
            place[key] = draw(junk)
        else:
            del place[key]
        return row


def use(path: Path, **options: Any) -> None:
    """Reads all there is; anything but an `InputError` is a failure."""
    try:
        trace = open_trace([path], **options)
    except InputError as error:
        assert error.message.strip()
        return
    assert len(list(trace)) == len(trace)
    if trace.kind == "blocks":
        unit = unit_of(trace, 16)
        for request in prepare(trace, None, unit):
            assert len(request.symbols) > 0
            assert request.num_tokens > 0


@settings(max_examples=150)
@given(st.lists(spoiled() | st.sampled_from(ROWS), min_size=1, max_size=4), st.booleans())
def test_spoiled_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], lenient: bool
) -> None:
    path = write_rows(tmp_path_factory.mktemp("spoiled") / "t.jsonl", rows)
    use(path, lenient=lenient, trace_block_size=512)
    use(path, lenient=lenient)


@settings(max_examples=150)
@given(
    st.binary(max_size=60) | st.text('{}[],:"\\tu 01eE.-\n\r', max_size=60).map(str.encode),
    st.sampled_from([None, *FORMATS]),
    st.booleans(),
)
def test_random_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str | None, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "t"
    path.write_bytes(gzip.compress(data) if packed else data)
    use(path, input_format=name)
    use(path, input_format=name, lenient=True)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(sorted({k for r in ROWS for k in r})), junk, max_size=5),
       st.sampled_from(sorted(FORMATS)))  # fmt: skip
def test_random_objects_as_any_format(
    tmp_path_factory: pytest.TempPathFactory, row: Row, name: str
) -> None:
    path = write_rows(tmp_path_factory.mktemp("objects") / "t", [row, row])
    use(path, input_format=name)
    use(path, input_format=name, lenient=True)
