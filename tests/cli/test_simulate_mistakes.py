"""Options of `kvtool simulate-agent` that are wrong, or wrong for a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli.trace_files import APPEND
from command_line import Run


def named(*args: str) -> list[str]:
    return list(args)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (named(), "There is no TRACE"),
        (named("-", "-"), "twice"),
        (named("t", "--capacity", "0"), "1 to"),
        (named("t", "--capacity", "5,,6"), "empty item"),
        (named("t", "--capacity", "x"), "'x' is not a size"),
        (named("t", "--policies", "lruu"), "Did you mean 'lru'"),
        (named("t", "--policies", "ttl"), "ttl:300"),
        (named("t", "--schemes", "shift"), "shift-grid"),
        (named("t", "--input-format", "openia"), "Did you mean 'openai'"),
        (named("t", "--replay", "time"), "serial, arrival"),
        (named("t", "--prefill-rate", "0"), "0.001 to 1e12"),
        (named("t", "--decode-rate", "1e-320"), "0.001 to 1e12"),
        (named("t", "--reuse", "shift", "--ungated"), "--ungated: nothing is computed"),
        (named("t", "--replies", "generate"), "--replies generate"),
        (named("t", "--verify"), "nothing is computed without --model"),
        (named("t", "--calibrate"), "nothing is computed without --model"),
        (named("t", "--device", "cpu"), "--device"),
        (named("t", "--dtype", "bf16", "--seed", "3"), "--dtype, --seed"),
        (named("t", "--cache-dir", "x"), "--cache-dir"),
        (named("t", "--events", "x"), "--events"),
        (named("t", "--donor", "recent"), "--donor would do nothing"),
        (named("t", "--model", "m", "--tokenizer", "m"), "drop --tokenizer"),
        (named("t", "--model", "m", "--decode-rate", "5"), "times are measured"),
        (named("t", "--model", "m", "--no-output-kv"), "Drop --no-output-kv, or --model"),
        (named("t", "--model", "m", "--calibrate", "--verify"), "drop --verify"),
        (named("t", "--no-advice", "--apply", "x"), "drop --no-advice"),
        (named("t", "--requests", "-"), "stdout carries the report"),
        (named("t", "--requests", "t"), "would replace the trace t"),
        (named("t", "--requests", "x", "--report", "x"), "would replace the file of --requests"),
        (
            named("t", "--export", "weka:x", "--export", "weka:x"),
            "would replace the file of --export weka",
        ),
        (
            named("t", "--export", "weka:t", "--export", "weka:x"),
            "would replace the trace t",
        ),
        (named("t", "--requests", "/nowhere/x"), "No such file or directory"),
        (named("t", "--export", "csv:x"), "allowed: "),
        (named("t", "--export", "weka"), "allowed: weka:OUT"),
        (named("t", "--export", "weka:"), "allowed: weka:OUT"),
    ],
)
def test_usage_errors(kvtool: Run, args: list[str], told: str) -> None:
    result = kvtool("simulate-agent", *args)
    assert (result.code, result.out) == (2, ""), result.err
    assert result.err.startswith("error: ") and told in result.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--block-size", "32"), "it is replayed in its own blocks"),
        (("--reuse", "shift"), "shift moves text"),
        (("--tokenizer", "demo"), "nothing to tokenise"),
        (("--model", "demo"), "a model computes text"),
        (("--export", "openai:x"), "no messages to write"),
    ],
)
def test_what_hash_ids_cannot_have(simulate: Run, blocks: Path, args: Any, told: str) -> None:
    result = simulate(blocks, "--trace-block-size", "512", *args)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_text_has_no_blocks_of_its_own(simulate: Run) -> None:
    result = simulate(APPEND, "--trace-block-size", "512")
    assert result.code == 2 and "this trace has text" in result.err
