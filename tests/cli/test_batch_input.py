"""Lines of a batch file, before any model is loaded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvtool.cli.batch_input import BadLine, BatchLine, read_batch, read_lines
from kvtool.errors import InputError


def read_one(request: Any) -> BatchLine | BadLine:
    [line] = read_lines(json.dumps(request).encode())
    return line


def good(request: Any) -> BatchLine:
    line = read_one(request)
    assert isinstance(line, BatchLine), line
    return line


def test_prompt_line() -> None:
    line = good({"custom_id": "a", "prompt": "hi", "raw": True, "salt": "s", "max_tokens": 3})
    assert line.messages == [{"role": "user", "content": "hi"}]
    assert (line.custom_id, line.raw, line.salt) == ("a", True, "s")
    assert line.sampling == {"max_tokens": 3}


def test_openai_batch_line() -> None:
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": "hi"}],
        "max_completion_tokens": 4,
        "temperature": 1,
        "stop": "x",
        "logit_bias": {"42": -100},
        "top_p": None,
    }
    line = good({"custom_id": 7, "method": "POST", "url": "/v1/chat/completions", "body": body})
    assert line.messages == [{"role": "user", "content": "hi"}]
    assert line.sampling == {
        "max_tokens": 4,
        "temperature": 1.0,
        "stop": ("x",),
        "logit_bias": {42: -100.0},
    }


def test_token_ids() -> None:
    assert good({"prompt": [1, 2, 3]}).token_ids == [1, 2, 3]


@pytest.mark.report("S30")
def test_blank_lines_bom_crlf_and_equal_ids() -> None:
    data = b'\xef\xbb\xbf{"prompt": "a", "custom_id": "x"}\r\n\r\n  \n{"prompt": "b", "custom_id": "x"}'
    first, second = read_lines(data)
    assert (first.line, second.line) == (1, 4)
    assert first.custom_id == second.custom_id == "x"


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ([], "not an object"),
        ({}, "either prompt or messages"),
        ({"prompt": "a", "messages": []}, "either prompt or messages"),
        ({"prompt": ""}, "empty"),
        ({"prompt": []}, "empty"),
        ({"prompt": {"a": 1}}, "neither text nor a list of token ids"),
        ({"prompt": [1, True]}, "neither text nor a list of token ids"),
        ({"prompt": "\ud800"}, "lone surrogate"),
        ({"messages": []}, "no messages"),
        ({"messages": [{"content": "x"}]}, "message 0"),
        ({"body": 3}, "body is not an object"),
        ({"prompt": "a", "adapter": "x"}, "adapter is not available"),
        ({"prompt": "a", "temprature": 1}, "'temprature' is unknown; allowed: prompt, messages"),
        ({"prompt": "a", "tools": []}, "'tools' is unknown"),
        ({"prompt": "a", "max_tokens": 1.0}, "max_tokens is 1.0"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens is True"),
        ({"prompt": "a", "max_tokens": "3"}, "max_tokens is '3'"),
        ({"prompt": "a", "temperature": "hot"}, "temperature is 'hot'"),
        ({"prompt": "a", "raw": 1}, "raw is 1"),
        ({"prompt": "a", "salt": 1}, "salt is 1"),
        ({"prompt": "a", "stop": [1]}, "stop is 1"),
        ({"prompt": "a", "seed": -1}, "seed is -1"),
        ({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"1": "x"}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"1": 10**400}}, "logit_bias"),
        ({"prompt": "a", "temperature": 10**400}, "temperature"),
        ({"prompt": "a", "seed": 2**63}, "below 2**63"),
        ({"prompt": "a", "stop": ""}, "stop is empty"),
        ({"prompt": "a", "stop": ["x", ""]}, "stop is empty"),
        ({"messages": None}, "either prompt or messages"),
        ({"messages": 3}, "must be a list of messages, not a number"),
        ({"prompt": "a", "body": {"prompt": "b"}}, "prompt is given twice"),
    ],
)
def test_bad_lines_say_what_is_wrong(request_: Any, named: str) -> None:
    line = read_one(request_)
    assert isinstance(line, BadLine)
    assert named in line.error.message
    assert line.error.exit_code == 5


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"{", "not JSON"),
        (b'{"prompt": "a"} x', "not JSON"),
        (b'{"prompt": "a", "temperature": NaN}', "NaN"),
        (b'{"prompt": "a", "temperature": 1e400}', "1e400 is too large"),
        (b'{"prompt": "a", "custom_id": -1e400}', "1e400 is too large"),
        (b'{"prompt": "a", "custom_id": ' + b"[" * 600 + b"]" * 600 + b"}", "nested too deeply"),
        (b'{"prompt": "a", x}', "line 1 is not JSON: Expecting property name enclosed"),
        (b'{"prompt": "\xff"}', "not UTF-8: byte 0xff at offset 12"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "not usable JSON"),
    ],
)
def test_lines_that_are_no_json(data: bytes, named: str) -> None:
    [line] = read_lines(data)
    assert isinstance(line, BadLine)
    assert named in line.error.message


def test_a_bad_line_keeps_its_id_and_its_neighbours() -> None:
    lines = read_lines(b'{"prompt": "a"}\n{"custom_id": "x", "prompt": 3}\n{"prompt": "c"}\n')
    assert [type(line) for line in lines] == [BatchLine, BadLine, BatchLine]
    assert lines[1].custom_id == "x"


def test_the_deepest_line(tmp_path: Any) -> None:
    nested: Any = 1
    for _ in range(99):
        nested = [nested]
    assert good({"prompt": "a", "custom_id": nested}).custom_id == nested
    assert isinstance(read_one({"prompt": "a", "custom_id": [nested]}), BadLine)


def test_what_nobody_foresaw_stays_in_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any) -> None:
        raise ZeroDivisionError("x / 0")

    monkeypatch.setattr("kvtool.cli.batch_input.parse_messages", bug)
    first, second = read_lines(b'{"messages": [], "custom_id": 7}\n{"prompt": "a"}')
    assert isinstance(first, BadLine) and isinstance(second, BatchLine)
    assert first.custom_id == 7 and "internal error: ZeroDivisionError" in first.error.message


@pytest.mark.report("S62")
def test_a_file_without_requests(tmp_path: Any) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"\n\n")
    with pytest.raises(InputError, match="holds no requests"):
        read_batch(str(path))
