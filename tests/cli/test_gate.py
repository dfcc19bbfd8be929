"""`--reuse shift` and its gate from the outside, on a tiny model with room for the probe set."""

from __future__ import annotations

import functools
import json
import shlex
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run

from kvtool.gate import cases
from kvtool.gate.records import read_records

TEXT = (
    "The ferry leaves the island at seven, at noon and at six in the evening, in winter only at "
    "noon. It carries forty people, two carts and the mail, and it waits for nobody but the doctor."
)
USAGE = ("cached_tokens", "shifted_tokens", "recomputed_tokens", "computed_tokens")


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = model_files.tiny_model(max_position_embeddings=1024)
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "roomy", model)


@pytest.fixture(autouse=True)
def _two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the probe set, so that a measurement takes a second."""
    monkeypatch.setattr(
        "kvtool.cli.inspect_gate.make_cases", lambda *parts: cases.make_cases(*parts)[-2:]
    )


@pytest.fixture
def gate(kvtool: Run, roomy: Path) -> Run:
    return functools.partial(kvtool, "inspect-cache", "--gate", roomy, "--dtype", "fp32")


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """The same text behind two beginnings."""
    path = tmp_path / "batch.jsonl"
    lines = [
        {"prompt": f"{begin} {TEXT} When does it leave?"} for begin in ("Read:", "Notes of May:")
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def moving(kvtool: Run, roomy: Path, batch: Path) -> Run:
    """`generate` on these prompts, one after the other, so that the second finds the first."""
    return functools.partial(
        kvtool,
        *("generate", "--model", roomy, "--dtype", "fp32", "--raw", "--batch", batch),
        *("--max-num-seqs", "1", "--max-tokens", "3", "--reuse", "shift"),
    )


def test_a_measurement_is_reported_and_kept(gate: Run, cache_folder: Path) -> None:
    result = gate("--format", "json")
    assert (result.code, result.err) == (0, "")
    document = result.json
    file = Path(document.pop("file"))
    assert document == json.loads(file.read_text())
    assert file == cache_folder / "gates" / f"{document['key']}.json"
    assert document["passed"] and document["failures"] == []
    assert document["limits"] == {"kl": 0.02, "top1": 0.92}
    subject = document["subject"]
    assert (subject["compute_dtype"], subject["scheme"]) == ("float32", "rotate")
    assert (subject["repair"], subject["donor"], subject["min_run"]) == ("auto", "similar", 128)
    assert [row["situation"] for row in document["situations"]] == list(cases.SITUATIONS)
    measured = [row for row in document["situations"] if row["cases"]]
    assert [row["situation"] for row in measured] == [cases.USER_PREFIX, cases.FROM_START]
    for row in (*measured, document["pooled"]):
        assert row["unmoved_cases"] == 0
        assert 0 < row["moved_tokens"] < row["prompt_tokens"]
        assert 0.2 < row["recompute_share"] < 0.4  # auto: a quarter, in whole blocks
        assert 0 < row["kl_mean"] < 0.02  # not the same KV, and a model of random weights


def test_a_measurement_for_people(gate: Run, kvtool: Run) -> None:
    result = gate()
    assert result.code == 0
    assert "repair auto, donor similar, runs of 128 tokens and more" in result.out
    assert "passed (limits: mean KL 0.02, top-1 0.92)" in result.out
    overview = kvtool("inspect-cache")
    assert overview.code == 0
    assert "gate  " in overview.out and overview.out.rstrip().endswith("passed")


def test_more_repair_comes_closer(gate: Run) -> None:
    found = [gate("--repair", r, "--format", "json").json["pooled"] for r in ("none", "first:150")]
    assert found[0]["recompute_share"] < 0.05  # what was computed at position 0
    assert found[1]["recompute_share"] > 0.4
    assert found[0]["moved_tokens"] == found[1]["moved_tokens"]
    assert found[0]["kl_mean"] > 1.5 * found[1]["kl_mean"] > 0


def test_outside_the_limits(gate: Run, moving: Run, cache_folder: Path) -> None:
    result = gate("--repair", "none", "--gate-kl", "0", "--format", "json")
    assert result.code == 6
    assert "is above 0" in result.json["failures"][0]
    assert "error: The gate is not passed: mean KL" in result.err
    (record,) = read_records(cache_folder)
    assert not record.passed and record.limits.kl == 0.0
    refused = moving("--repair", "none")
    assert refused.code == 2
    assert "does not pass the gate for float32 with --repair none" in refused.err


def test_nothing_moved_is_nothing_measured(gate: Run) -> None:
    result = gate("--min-run", "1000", "--format", "json")
    assert result.code == 6
    assert result.json["failures"] == [
        "no text of the probe set was moved, so nothing was measured"
    ]
    assert result.json["pooled"]["kl_mean"] is None
    shown = gate("--min-run", "1000")
    assert "In 2 prompts no text was moved" in shown.out and "n/a" in shown.out


def test_without_a_record_the_command_that_makes_it_is_named(moving: Run, kvtool: Run) -> None:
    refused = moving("--repair", "first:32")
    assert (refused.code, refused.out) == (2, "")
    assert "has no record of the gate for float32 with --repair first:32" in refused.err
    command = refused.err.splitlines()[-1].removeprefix("hint: ").partition(", or")[0]
    assert kvtool(*shlex.split(command)[1:]).code == 0
    assert moving("--repair", "first:32").code == 0
    assert moving("--repair", "first:64").code == 2
    assert moving("--repair", "first:32", "--donor", "recent").code == 2
    assert moving("--repair", "first:32", "--min-run", "64").code == 2
    assert moving("--repair", "first:32", "--no-cache-dir").code == 0


def test_a_record_of_another_dtype_does_not_count(gate: Run, moving: Run) -> None:
    assert gate("--dtype", "bf16").code == 0
    assert moving().code == 2
    assert moving("--dtype", "bf16").code == 0


def test_keys_without_rotation_are_a_scheme_of_their_own(
    gate: Run, moving: Run, kvtool: Run, roomy: Path
) -> None:
    nope = ("--reuse-scheme", "nope")
    assert gate().code == 0
    refused = moving(*nope)
    assert refused.code == 2 and "--min-run 128 --reuse-scheme nope" in refused.err
    assert "--gate" in refused.err and refused.err.rstrip().endswith("or add --ungated.")
    found = gate(*nope, "--format", "json").json
    assert found["passed"] and found["subject"]["scheme"] == "nope"
    unrotated, rotated = (run.lines for run in (moving(*nope, "--verify"), moving("--verify")))
    assert [line["text"] for line in unrotated] == [line["text"] for line in rotated]
    assert [line["usage"] for line in unrotated] == [line["usage"] for line in rotated]
    assert unrotated[0]["verify"]["verdict"] == "identical"
    assert unrotated[1]["usage"]["shifted_tokens"] > 0

    def why(*options: str) -> Any:
        prompt = f"Read: {TEXT} When does it leave?"
        words = ("--why", prompt, "--model", roomy, "--dtype", "fp32", "--raw", "--format", "json")
        return kvtool("inspect-cache", *words, *options).json

    for document in (why(), why(*nope)):
        assert document["hit_tokens"] == document["prompt_tokens"] - 1
    layouts = [document["namespace"]["kv_layout"] for document in (why(), why(*nope))]
    assert layouts == ["block-major", "block-major, keys unrotated"]
    assert kvtool("inspect-cache", "--tree", *nope).code == 2


def test_usage_by_source(moving: Run) -> None:
    first, second = (line["usage"] for line in moving("--ungated").lines)
    for usage in (first, second):
        assert sum(usage[name] for name in USAGE) == usage["prompt_tokens"]
    assert (first["shifted_tokens"], first["recomputed_tokens"]) == (0, 0)
    moved = second["shifted_tokens"] + second["recomputed_tokens"]
    assert moved >= len(TEXT) // 2
    assert second["recomputed_tokens"] == pytest.approx(moved / 4, abs=16)
    plain = moving("--reuse", "prefix").lines[1]["usage"]
    assert plain["shifted_tokens"] == plain["recomputed_tokens"] == 0


def test_statistics_tell_of_moved_text(moving: Run) -> None:
    result = moving("--ungated", "--stats", "--repair", "none")
    assert result.code == 0
    usage = result.lines[1]["usage"]
    assert usage["recomputed_tokens"] == 0
    assert f"{usage['shifted_tokens']} shifted" in result.err
    assert f"{usage['shifted_tokens']} tokens as it was, 0 computed again" in result.err
    assert "(donor similar, repair none)" in result.err


def test_refused_runs_are_told_with_their_reason(moving: Run) -> None:
    result = moving("--ungated", "--stats", "--min-run", "180")
    assert result.lines[1]["usage"]["shifted_tokens"] == 0
    assert "runs not moved" in result.err and "1 shorter_than_min_run" in result.err


def test_verify_calls_moved_text_approximate(moving: Run) -> None:
    result = moving("--ungated", "--verify", "--repair", "none")
    assert result.code == 0, result.err
    exact, moved = (line["verify"] for line in result.lines)
    assert exact["verdict"] in ("identical", "within tolerance")
    assert exact["tolerance"] > 0 and exact["reused_tokens"] == 0
    assert (moved["verdict"], moved["tolerance"]) == ("approximate", None)
    assert moved["max_abs_logit_diff"] > 0 and moved["kl_mean"] > 0
    assert 0 <= moved["top1_agreement"] <= 1
    human = moving("--ungated", "--verify", "--repair", "none").err
    assert "1 approximate" in human and "with moved text" in human
    assert "worst max_abs_logit_diff without moved text" in human
    assert "came from the cache, moved text included" in human


def test_effective_options(kvtool: Run, roomy: Path) -> None:
    def effective(*options: str) -> Any:
        words = ("hello", "--model", roomy, "--dtype", "fp32", "--max-tokens", "1")
        return kvtool("generate", *words, *options, "--format", "json").json["effective"]

    shift = effective("--reuse", "shift", "--ungated", "--repair", "attn:.150")
    assert (shift["reuse"], shift["repair"], shift["donor"]) == ("shift", "attn:0.15", "similar")
    assert (shift["min_run"], shift["ungated"]) == (128, True)
    assert shift["reuse_scheme"] == "rotate"
    nope = effective("--reuse", "shift", "--ungated", "--reuse-scheme", "nope")
    assert nope["reuse_scheme"] == "nope"
    prefix = effective()
    options = ("reuse_scheme", "repair", "donor", "min_run", "ungated")
    assert [prefix[name] for name in options] == [None] * 5


def test_a_context_without_room_for_the_probe_set(kvtool: Run, tiny: Path) -> None:
    result = kvtool("inspect-cache", "--gate", tiny, "--dtype", "fp32")
    assert result.code == 3
    assert "needs a context of" in result.err and "this model has 256" in result.err


def test_a_model_whose_keys_cannot_be_moved(kvtool: Run, tmp_path: Path) -> None:
    sizes = {"n_positions": 1024, "n_embd": 32, "n_layer": 2, "n_head": 2}
    gpt2 = model_files.save_folder(tmp_path / "gpt2", model_files.tiny_model("gpt2", **sizes))
    for words in (
        ("inspect-cache", "--gate", gpt2),
        ("generate", "a", "--model", gpt2, "--reuse", "shift"),
    ):
        result = kvtool(*words)
        assert result.code == 3
        assert "cannot use cached text at other positions: layer 0: V depends on" in result.err
    told = kvtool("inspect-cache", "--rope-check", gpt2, "--format", "json")
    assert told.code == 0
    assert told.json["facts"] == [] and "V depends on the position" in told.json["reason"]


def test_a_folder_that_cannot_keep_the_record_is_told_at_once(gate: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    result = gate(tmp_path)
    assert result.code == 4
    assert "is not a kvtool cache" in result.err


def test_rope_check(kvtool: Run, roomy: Path) -> None:
    words = ("inspect-cache", "--rope-check", roomy, "--dtype", "fp32")
    document = kvtool(*words, "--format", "json").json
    assert document["holds"] and document["reason"] is None
    names = [fact["name"] for fact in document["facts"]]
    assert "rotations add" in names and "the same text at two positions" in names
    (pairs,) = document["pairs"]
    assert pairs["frequencies"] == sorted(pairs["frequencies"], reverse=True)
    shown = kvtool(*words)
    assert shown.code == 0 and shown.out.rstrip().endswith("Every fact holds.")


def test_a_fact_that_fails(kvtool: Run, roomy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvtool.models import rope_facts
    from kvtool.models.rope_fact import Fact, Measured

    broken = Fact("rotations add", "Rotations add.", (Measured("error", float("nan"), 1e-5),))
    monkeypatch.setattr(rope_facts, "rotations_add", lambda *_: broken)
    words = ("inspect-cache", "--rope-check", roomy, "--dtype", "fp32")
    result = kvtool(*words, "--format", "json")
    assert result.code == 6
    assert "does not hold for this model: rotations add" in result.err
    fact = next(f for f in result.json["facts"] if f["name"] == "rotations add")
    assert not fact["holds"] and fact["measured"][0]["value"] is None
    assert "FAILS" in kvtool(*words).out


def test_prefill_keeps_what_is_exact(kvtool: Run, roomy: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("may.md", "june.md")]
    for file, begin in zip(files, ("May. ", "Notes of June. ")):
        file.write_text(begin + TEXT)
    words = ("--model", roomy, "--dtype", "fp32", "--raw", "--max-num-seqs", "1")
    shift = ("--reuse", "shift", "--ungated", "--min-run", "64")
    result = kvtool("prefill", *files, *words, *shift, "--format", "json")
    first, second = result.json["files"]
    assert first["stored_tokens"] == first["prompt_tokens"]
    assert 0 < second["stored_tokens"] < second["prompt_tokens"] // 2
    assert sum(second[name] for name in USAGE) == second["prompt_tokens"]
    assert second["shifted_tokens"] > 0
    assert "behind text that was moved here nothing is exact" in result.err


def test_why_names_the_text_at_another_position(kvtool: Run, roomy: Path, tmp_path: Path) -> None:
    stored, asked = tmp_path / "stored.md", tmp_path / "asked.md"
    stored.write_text("May. " + TEXT)
    asked.write_text("Notes of June. " + TEXT)
    words = ("--model", roomy, "--dtype", "fp32", "--raw")
    assert kvtool("prefill", stored, *words).code == 0
    spans = kvtool("inspect-cache", *words, "--file", asked, "--format", "json").json["spans"]
    moved = next(span for span in spans if span["reason"] == "other_position")
    assert (moved["kind"], moved["delta"]) == ("compute", len("Notes of June.") - len("May."))
    assert moved["end"] - moved["start"] >= 128
    assert "stored at position" in kvtool("inspect-cache", *words, "--file", asked).out
