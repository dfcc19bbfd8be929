"""`kvtool inspect-cache` --why, --tree and --diff: what is kept of a prompt, and its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run

QUESTION = "Who frees a block?"


def test_why_names_the_boundary_of_a_prefilled_file(
    notes: Path, inspect: Run, document: Any
) -> None:
    found = document("--file", notes, "--why", QUESTION)
    first, last = found["spans"][0], found["spans"][-1]
    assert (first["kind"], first["tier"], first["delta"]) == ("hit", "disk", 0)
    assert last["end"] == found["prompt_tokens"]
    assert last["reason"] in ("partial_block", "diverges")
    block = first["end"] // 16
    assert f"inside block {block}" in last["detail"]
    shown = inspect("--file", notes, "--why", QUESTION).out
    assert last["detail"] in shown


def test_why_agrees_with_what_generate_does(notes: Path, document: Any, ask: Run) -> None:
    for extra in ([], ["--prefix-index", "chain"], ["--raw"], ["--system", "Be brief."]):
        prompt = ("--file", notes, *extra)
        expected = document(*prompt, "--why", QUESTION)
        done = ask(*prompt, QUESTION, "--format", "json").json
        usage, (disk,) = done["usage"], done["cache"]["tiers"]
        assert expected["prompt_tokens"] == usage["prompt_tokens"]
        # A tiny model may be faster than its disk.
        assert expected["hit_tokens"] == usage["cached_tokens"] + disk["skipped_tokens"]


def test_why_shows_both_texts(ask: Run, inspect: Run, document: Any) -> None:
    ask("the quick brown fox")
    (_, span) = document("--why", "the quick blue fox")["spans"]
    assert span["reason"] == "diverges"
    difference = span["first_difference"]
    assert difference["before"] == "<|im_start|>user\nthe quick"
    assert (difference["prompt"]["text"] + difference["prompt"]["behind"]).startswith(" blue")
    assert (difference["stored"]["text"], difference["stored"]["behind"][:4]) == (" brown", " fox")
    shown = inspect("--why", "the quick blue fox").out
    assert "quick« »blue" in shown and "quick« brown» fox" in shown


def test_why_names_the_field_that_differs(ask: Run, document: Any, kvtool: Run) -> None:
    ask("hello there")
    (span,) = document("--why", "hello there", "--block-size", "8")["spans"]
    assert span["reason"] == "other_namespace"
    assert span["differences"] == [{"field": "block_size", "asked": 8, "stored": 16}]


@pytest.mark.report("S49")
@pytest.mark.parametrize(
    ("change", "fields"),
    [("weights", ["weights"]), ("rope", ["architecture", "rope_regime"])],
)
def test_other_weights_or_rope_under_the_same_name(
    ask: Run, kvtool: Run, tmp_path: Path, tiny: Path, change: str, fields: list[str]
) -> None:
    ask("hello there")
    linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
    model = model_files.tiny_model(**({"rope_parameters": linear} if change == "rope" else {}))
    if change == "weights":
        model.lm_head.weight.data[0, 0] += 1
    other = model_files.save_folder(tmp_path / tiny.name, model)
    options = ("--model", other, "--dtype", "fp32", "--format", "json")
    found = kvtool("inspect-cache", "--why", "hello there", *options).json
    assert found["hit_tokens"] == 0
    assert [span["reason"] for span in found["spans"]] == ["other_namespace"]
    assert [d["field"] for d in found["spans"][0]["differences"]] == fields
    namespaces = kvtool("inspect-cache", "--format", "json").json["entries"]
    assert [entry["namespace"]["number"] for entry in namespaces] == [1]
    assert kvtool("generate", "hello there", "--max-tokens", "2", *options).code == 0
    namespaces = kvtool("inspect-cache", "--format", "json").json["entries"]
    assert {entry["namespace"]["number"] for entry in namespaces} == {1, 2}


def test_conversations(ask: Run, document: Any, tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text("[]")
    ask("hello", "--messages", chat, "--append")
    found = document("--messages", chat, "--why", "and now?")
    assert found["spans"][0]["kind"] == "hit"
    assert found["prompt_tokens"] > found["hit_tokens"] > 0


def test_tree(ask: Run, inspect: Run, document: Any) -> None:
    prompt = "the quick brown fox jumps over the lazy dog"
    ask(f"{prompt} and sleeps")
    ask(f"{prompt} and runs")
    tree = document("--tree")
    assert [node["parent"] for node in tree["nodes"]] == [None, 0, 0]
    assert all("text" not in node for node in tree["nodes"])
    shown = inspect("--tree")
    assert "fox" not in shown.out and "├─" in shown.out
    texts = [node["text"] for node in document("--tree", "--show-text")["nodes"]]
    assert "quick" in texts[0] and "quick" not in texts[1]
    assert "quick" in inspect("--tree", "--show-text").out


def test_text_needs_the_tokenizer_it_was_made_with(ask: Run, kvtool: Run, tmp_path: Path) -> None:
    ask("hello")
    tokenizer = model_files.byte_level()
    tokenizer.add_tokens(["hello"])
    other = model_files.save_folder(tmp_path / "other", tokenizer=tokenizer)
    result = kvtool("inspect-cache", "--tree", "--show-text", "--model", other)
    assert result.code == 2
    assert "Nothing stored was made with the tokenizer" in result.err


@pytest.mark.report("S74")
def test_control_characters_of_stored_text_are_escaped(ask: Run, inspect: Run) -> None:
    ask("red \x1b[31m and \x9b2J bell \x07 \u202e", "--raw")
    for args in (["--tree", "--show-text"], ["--why", "red \x1b[32m", "--raw"]):
        shown = inspect(*args).out
        assert "\\x1b" in shown
        assert not {c for c in shown if not c.isprintable()} - {"\n"}


def test_diff_of_keys_and_files(ask: Run, inspect: Run, document: Any, tmp_path: Path) -> None:
    prompts = ("the quick brown fox", "the quick blue fox")
    files = []
    for number, prompt in enumerate(prompts):
        ask(prompt)
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(prompt)
    keys = [entry["key"] for entry in document()["entries"]]
    of_keys = document("--diff", *(key[:16] for key in keys))
    of_files = document("--diff", *files)
    assert of_keys["common_tokens"] == of_files["common_tokens"] > 0
    assert [of_keys[side]["name"] for side in "ab"] == keys
    assert [of_files[side]["stored_tokens"] for side in "ab"] == [
        of_files[side]["tokens"] for side in "ab"
    ]
    assert of_keys["first_difference"]["prompt"]["text"] is None
    shown = inspect("--diff", *keys, "--show-text").out
    assert "quick« »blue" in shown and "quick« brown» fox" in shown


def test_diff_reads_streams_and_knows_what_is_the_same(
    kvtool: Run, tiny: Path, notes: Path, inspect: Run
) -> None:
    model = ("--model", tiny, "--dtype", "fp32")
    piped = kvtool("inspect-cache", "--diff", "-", notes, *model, stdin=notes.read_bytes())
    assert piped.code == 0, piped.err
    assert "No token differs where both are known: they are the same." in piped.out
    longer = kvtool("inspect-cache", "--diff", "-", notes, *model, stdin=b"x")
    assert "The first difference is at token" in longer.out
