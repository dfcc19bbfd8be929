"""Conversations that continue on token ids."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run

from kvtool.cli.generation import run_prompt
from kvtool.cli.rendering import render_prompt
from kvtool.cli.results import View
from kvtool.cli.transcript import KEY, Transcript, plain, reply_message
from kvtool.config import EngineConfig
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import InputError
from kvtool.models.tokenizer import Tokenizer, load_tokenizer
from kvtool.runtime import Runtime

USER = {"role": "user", "content": "say it"}
NEXT = {"role": "user", "content": "and again"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    model_files.save_folder(folder)
    return load_tokenizer(folder)


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """One token a character, as a model may choose and `encode` never would."""
    return [token for character in text for token in tokenizer.encode(character)]


def turn(tokenizer: Tokenizer, messages: list[Any], text: str, ids: list[int]) -> Any:
    prompt = render_prompt(tokenizer, messages, raw=False, vocab_size=tokenizer.vocab_size)
    return prompt, reply_message(tokenizer, prompt.text, prompt.token_ids, text, ids)


@pytest.mark.report("S10")
def test_the_next_turn_continues_on_the_ids(tokenizer: Tokenizer) -> None:
    text = "the quick brown fox"
    ids = spelled(tokenizer, text)
    assert ids != tokenizer.encode(text)
    prompt, reply = turn(tokenizer, [USER], text, ids)
    again = render_prompt(
        tokenizer, [USER, reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size
    )
    assert again.token_ids[: len(prompt.token_ids + ids)] == prompt.token_ids + ids
    assert tokenizer.decode(again.token_ids) == again.text
    assert again.text == tokenizer.render(plain([USER, reply, NEXT]))


def test_ids_chain_over_several_turns(tokenizer: Tokenizer) -> None:
    messages: list[Any] = [USER]
    covered: list[int] = []
    for text in ("fox", "dog", "lazy dog"):
        ids = spelled(tokenizer, text)
        prompt, reply = turn(tokenizer, messages, text, ids)
        assert prompt.token_ids[: len(covered)] == covered
        covered = prompt.token_ids + ids
        messages += [reply, NEXT]


def test_ids_behind_a_stop_string_are_not_kept(tokenizer: Tokenizer) -> None:
    ids = spelled(tokenizer, "fox STOP")
    prompt, reply = turn(tokenizer, [USER], "fox ", ids)
    assert reply[KEY]["token_ids"] == prompt.token_ids + ids[:4]
    again = render_prompt(
        tokenizer, [USER, reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size
    )
    assert tokenizer.decode(again.token_ids) == again.text


def test_an_unfinished_character_at_the_end(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a🦙")[:-1]
    _, reply = turn(tokenizer, [USER], tokenizer.decode(ids), ids)
    again = render_prompt(
        tokenizer, [USER, reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size
    )
    assert tokenizer.decode(again.token_ids) == again.text


@pytest.mark.parametrize("edit", ["history", "reply", "ids", "tokenizer"])
def test_an_edit_means_new_ids_and_a_warning(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str], edit: str, tmp_path: Path
) -> None:
    ids = spelled(tokenizer, "the fox")
    _, reply = turn(tokenizer, [USER], "the fox", ids)
    first = USER
    if edit == "history":
        first = {**USER, "content": "say that"}
    elif edit == "reply":
        reply = {**reply, "content": "the dog"}
    elif edit == "ids":
        reply[KEY]["token_ids"][3] += 1
    else:
        other = model_files.byte_level(model_files.CHATML.replace("assistant", "helper"))
        tokenizer = load_tokenizer(model_files.save_folder(tmp_path, tokenizer=other))
    again = render_prompt(
        tokenizer, [first, reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size
    )
    assert again.token_ids == tokenizer.encode_chat(plain([first, reply, NEXT]))
    assert "warning: the stored token ids do not fit" in capsys.readouterr().err


@pytest.mark.report("S63")
@pytest.mark.parametrize(
    "stored",
    [
        3,
        {},
        {"token_ids": [1], "reply_tokens": 2},
        {"token_ids": [1], "reply_tokens": True},
        {"token_ids": [-1], "reply_tokens": 1},
        {"token_ids": [10**9], "reply_tokens": 1},
        {"token_ids": ["1"], "reply_tokens": 1},
    ],
)
def test_damaged_fields_are_refused(tokenizer: Tokenizer, stored: object) -> None:
    reply = {"role": "assistant", "content": "x", KEY: stored}
    with pytest.raises(InputError, match=r"damaged field|Token id at index 0"):
        render_prompt(tokenizer, [USER, reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size)


def test_append_writes_prompt_and_reply(generate: Run, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"title": "t", "messages": [{"role": "system", "content": None}]}))
    path.chmod(0o640)
    options = ("--messages", path, "--append", "--max-tokens", "5", "--format", "json")
    first = generate("hello", *options).json
    document = json.loads(path.read_text())
    assert document["title"] == "t"
    assert [m["role"] for m in document["messages"]] == ["system", "user", "assistant"]
    assert document["messages"][0]["content"] is None
    assert document["messages"][2]["content"] == first["text"]
    assert path.stat().st_mode & 0o777 == 0o640
    second = generate("and then", *options)
    assert second.code == 0 and second.err == ""
    stored = [m[KEY]["token_ids"] for m in json.loads(path.read_text())["messages"] if KEY in m]
    assert stored[1][: len(stored[0])] == stored[0]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.report("S10")
@pytest.mark.report("S13")
def test_the_next_turn_finds_prompt_and_reply_in_the_cache(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = Runtime.open(EngineConfig(model=str(tiny), dtype="float32"))
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([USER]))
    sampling = SamplingParams(max_tokens=6, logit_bias={77: 100.0})  # text that tokenises otherwise
    view = View(format="json", stats=False, verify=False)
    usages = []
    for _ in range(3):
        transcript = Transcript.read(str(path))
        messages = [*transcript.messages, NEXT]
        run_prompt(runtime, messages, sampling, raw=False, view=view, transcript=transcript)
        usages.append(json.loads(capsys.readouterr().out)["usage"])
    for before, usage in pairwise(usages):
        # The last sampled token was never fed, so its KV does not exist.
        known = before["prompt_tokens"] + before["completion_tokens"] - 1
        assert usage["cached_tokens"] == known < usage["prompt_tokens"]
    runtime.close()


@pytest.mark.report("S13")
def test_the_next_turn_in_a_run_of_its_own_finds_them_too(generate: Run, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    options = ("--messages", path, "--append", "--max-tokens", "6", "--ignore-eos")
    turns = [generate(text, *options, "--format", "json").json for text in ("hi", "and", "then")]
    for before, turn in pairwise(turns):
        known = before["usage"]["prompt_tokens"] + before["usage"]["completion_tokens"] - 1
        assert turn["usage"]["cached_tokens"] == known < turn["usage"]["prompt_tokens"]
        assert turn["cache"]["cached_by_tier"] == {"disk": known}


def test_nothing_is_written_after_an_error(generate: Run, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text("[]")
    assert generate("--messages", path, "--append").code == 5
    assert path.read_text() == "[]"
    path.write_text(json.dumps([USER]))
    before = path.read_bytes()
    result = generate("hi", "--messages", path, "--append", "--max-tokens", "1000")
    assert result.code == 2 and path.read_bytes() == before


@pytest.mark.parametrize("before", [None, "[]", '{"messages": [], "note": "\\ud83d"}'])
def test_a_conversation_begins(generate: Run, tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "new.json"
    if before is not None:
        path.write_text(before)
    assert generate("hi", "--messages", path, "--append", "--max-tokens", "2").code == 0
    document = json.loads(path.read_text())
    messages = document if isinstance(document, list) else document["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert isinstance(document, list) or document["note"] == "\ud83d"
    assert list(tmp_path.iterdir()) == [path]


def test_no_prompt_begins_no_conversation(generate: Run, tmp_path: Path) -> None:
    result = generate("--messages", tmp_path / "new.json", "--append")
    assert result.code == 5 and "No such file" in result.err


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_append_asks_first_whether_it_may_write(
    kvtool: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: str
) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([USER]))
    place = path if locked == "file" else tmp_path
    monkeypatch.setattr("os.access", lambda asked, _: asked != place)
    result = kvtool("generate", "hi", "--messages", path, "--append", "--model", "/no/model")
    assert result.code == 5 and "is not writable" in result.err


def test_numbers_that_no_json_can_hold_are_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('{"score": 1e400, "messages": [{"role": "user", "content": "a"}]}')
    with pytest.raises(InputError, match="1e400 is too large a number"):
        Transcript.read(str(path))


def test_nothing_is_left_of_a_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([USER]))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"Cannot write .* No space left"):
        Transcript.read(str(path)).append([NEXT])
    assert list(tmp_path.iterdir()) == [path]


def test_a_reply_without_its_question_is_tokenised_anew(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    _, reply = turn(tokenizer, [USER], "the fox", spelled(tokenizer, "the fox"))
    again = render_prompt(tokenizer, [reply, NEXT], raw=False, vocab_size=tokenizer.vocab_size)
    assert again.token_ids == tokenizer.encode_chat(plain([reply, NEXT]))
    assert "warning: the stored token ids do not fit" in capsys.readouterr().err


def test_ids_are_the_models_not_the_tokenizers(tokenizer: Tokenizer) -> None:
    """A model with padded embeddings may answer with ids that the tokenizer does not have."""
    beyond = tokenizer.vocab_size + 5
    prompt, reply = turn(tokenizer, [USER], "fox", [*tokenizer.encode("fox"), beyond])
    size = beyond + 1
    again = render_prompt(tokenizer, [USER, reply, NEXT], raw=False, vocab_size=size)
    assert again.token_ids[: len(prompt.token_ids) + len(reply[KEY]["token_ids"])].count(beyond)
    with pytest.raises(InputError, match="Token id at index"):
        render_prompt(tokenizer, [USER, reply, NEXT], raw=False, vocab_size=beyond)


def test_read_names_the_place_of_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user",\n "content": }]')
    with pytest.raises(InputError, match=r"chat.json is not JSON: .* line 2, column 13"):
        Transcript.read(str(path))
