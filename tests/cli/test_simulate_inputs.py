"""What `simulate-agent` says of what it read, compared and changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run
from simulation.example_document import TRACES


def test_what_was_skipped_is_named(kvtool: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    path.write_text("\n".join((good, *["{"] * 4, good)))
    told = kvtool("simulate-agent", "--no-advice", "--lenient", path).err
    assert "4 skipped: the record is not JSON (t.jsonl:2; t.jsonl:3; t.jsonl:4, …)." in told


def test_the_fallback_tokenizer_names_the_option(kvtool: Run) -> None:
    told = kvtool("simulate-agent", "--no-advice", TRACES / "append.jsonl").err
    assert "give --tokenizer MODEL for exact figures." in told


@pytest.mark.parametrize(("mode", "is_told"), [("serial", True), ("arrival", False)])
def test_together_is_a_limit_of_a_serial_replay(
    kvtool: Run, tmp_path: Path, mode: str, is_told: bool
) -> None:
    row = {"messages": [{"role": "user", "content": "hi"}], "timestamp": 5}
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * 3)
    told = kvtool("simulate-agent", "--no-advice", path, "--replay", mode).err
    assert ("3 requests arrive while another" in told) is is_told


def test_explain_says_whom_it_compares_with(kvtool: Run, tmp_path: Path) -> None:
    """The request before it of its session, and the one that really shares most."""

    def row(id: str, session: str, text: str) -> str:
        messages = [{"role": "system", "content": text}, {"role": "user", "content": "go on"}]
        return json.dumps({"id": id, "session_id": session, "messages": messages})

    path = tmp_path / "t.jsonl"
    rows = [row("own", "s", "one two three four"), row("other", "t", "five six seven eight nine")]
    path.write_text("\n".join([*rows, row("last", "s", "five six seven eight ten")]))
    command = ("simulate-agent", "--no-advice", path, "--explain", "last")
    found = kvtool(*command, "--format", "json").json["explain"]
    assert (found["compared_with"]["id"], found["shares_most_with"]["id"]) == ("own", "other")
    shared = [found[key]["shared_tokens"] for key in ("compared_with", "shares_most_with")]
    told = " ".join(kvtool(*command).out.split())
    assert (
        "compared with own, the request before it of its session: they share the first "
        f"{shared[0]} tokens; of all earlier ones other shares most, {shared[1]}" in told
    )
    assert shared[0] < shared[1]


def test_what_was_applied_is_shown(kvtool: Run, tmp_path: Path) -> None:
    out = tmp_path / "better.jsonl"
    told = kvtool("simulate-agent", TRACES / "upload-first.jsonl", "--apply", out).out
    assert "Applied: stable-first; 4 of 4 requests changed" in told
    assert "--- ruth as recorded" in told and "+Upload of the user:" in told
    assert told.count("as recorded") == 1 and "--format json has more" in told


def test_nothing_to_apply_leaves_the_trace_as_it_is(kvtool: Run, tmp_path: Path) -> None:
    source, out = TRACES / "append.jsonl", tmp_path / "same.jsonl"
    told = kvtool("simulate-agent", source, "--apply", out).out
    assert "Applied: nothing" in told and "the file has its requests as they are" in told
    sent = [[json.loads(line)["messages"] for line in path.open()] for path in (source, out)]
    assert sent[0] == sent[1]
