"""Text from arguments, files and stdin."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kvtool.cli.messages import parse_messages
from kvtool.cli.prompt import read_prompt
from kvtool.cli.text import read_text
from kvtool.errors import InputError


def write(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def content(prompt: str | None, files: list[str]) -> str:
    [message] = read_prompt(prompt, files, None)
    assert message["role"] == "user"
    text: str = message["content"]
    return text


def test_files_come_first_in_order_joined_by_blank_lines(tmp_path: Path) -> None:
    b, a = write(tmp_path, "b", b"from b\n"), write(tmp_path, "a", b"from a\n")
    assert content("then this", [b, a]) == "from b\n\nfrom a\n\nthen this"


def test_system_message(tmp_path: Path) -> None:
    messages = read_prompt("hi", [], "Be brief.")
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[0]["content"] == "Be brief."


@pytest.mark.report("S82")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hi\n", "hi"),
        (b"hi\r\n", "hi"),
        (b"hi\n\n", "hi\n"),
        (b"hi", "hi"),
        (b"hi\r", "hi\r"),
        (b"\n hi \t", "\n hi \t"),
        (b"\xef\xbb\xbfhi\n", "hi"),
        ("🦙 é\n".encode(), "🦙 é"),
    ],
)
def test_one_newline_at_the_end_is_dropped(tmp_path: Path, data: bytes, text: str) -> None:
    assert read_text(write(tmp_path, "f", data)) == text


def test_dash_is_stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write(tmp_path, "f", b"file")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"stdin\n")))
    assert content("-", [path]) == "file\n\nstdin"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"stdin\n")))
    assert content("prompt", ["-", path]) == "stdin\n\nfile\n\nprompt"


@pytest.mark.report("S61")
@pytest.mark.parametrize("data", [b"ok \x9d", b"\xc3", b"\xed\xa0\xbd"])
def test_bytes_that_are_not_utf8_are_named(tmp_path: Path, data: bytes) -> None:
    offset = 3 if data.startswith(b"ok") else 0
    with pytest.raises(
        InputError, match=f"not UTF-8: byte 0x{data[offset]:02x} at offset {offset}"
    ):
        read_text(write(tmp_path, "f", data))


@pytest.mark.report("S61")
@pytest.mark.parametrize("text", ["\ud83d", "a\udc9db"])
def test_lone_surrogates_are_named(text: str) -> None:
    with pytest.raises(InputError, match=r"PROMPT holds a lone surrogate U\+D"):
        read_prompt(text, [], None)
    with pytest.raises(InputError, match="message 1 holds a lone surrogate"):
        parse_messages([{"role": "system"}, {"role": "user", "content": text}], "chat.json")


@pytest.mark.report("S62")
def test_empty_parts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PROMPT is empty"):
        read_prompt("", [], None)
    empty = write(tmp_path, "empty", b"\n")
    with pytest.raises(InputError, match="empty is empty"):
        read_prompt("text", [empty], None)


def test_missing_file() -> None:
    with pytest.raises(InputError, match="Cannot read 'nowhere': No such file"):
        read_prompt(None, ["nowhere"], None)


@pytest.mark.report("S60")
@pytest.mark.parametrize("message", [{"content": None}, {}, {"content": []}, {"content": ""}])
def test_no_content_is_empty_text(message: dict[str, object]) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given = {"role": "assistant", "tool_calls": [call], **message}
    [parsed] = parse_messages([given], "chat.json")
    assert parsed["content"] == ""
    assert parsed["tool_calls"][0]["function"]["name"] == "f"


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    [parsed] = parse_messages([{"role": "user", "content": parts}], "chat.json")
    assert parsed["content"] == "ab"


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "must be a list of messages"),
        ("hi", "must be a list of messages"),
        ([], "no messages"),
        (["hi"], "message 0"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], "message 1"),
        ([{"role": 3, "content": "b"}], "message 0"),
        ([{"role": "", "content": "b"}], "message 0 has an empty role"),
        ([{"role": "user", "content": 7}], "message 0 has content 7"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "message 0"),
    ],
)
def test_malformed_messages_are_named(document: object, named: str) -> None:
    with pytest.raises(InputError, match=named):
        parse_messages(document, "chat.json")
