"""The frame around every command: help, version, errors, exit codes, start-up."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Run
from typer.testing import CliRunner

from kvtool import __version__
from kvtool.cache.eviction import POLICIES
from kvtool.cache.index import INDEXES
from kvtool.cli import app, boundary, engine_options, gate_options, output, shift_options
from kvtool.cli.commands import COMMANDS, load
from kvtool.cli.docs import page
from kvtool.config import EngineConfig
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import CacheError
from kvtool.gate.score import Limits
from kvtool.reuse.donors import DONORS
from kvtool.reuse.repair import RULES

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"torch", "transformers", "triton", "numpy", "rich.console", "click", "pydantic"}


def imported(*args: str) -> set[str]:
    """The modules that a process has after `kvtool ARGS`."""
    code = (
        "import sys; from kvtool.cli.app import run; assert run(sys.argv[1:]) == 0; "
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_goes_to_stdout(kvtool: Run) -> None:
    result = kvtool("--help")
    assert (result.code, result.err) == (0, "")
    assert "generate" in result.out


def test_no_command_shows_help_and_is_a_usage_error(kvtool: Run) -> None:
    result = kvtool()
    assert result.code == 2
    assert result.out == kvtool("--help").out


def test_version(kvtool: Run) -> None:
    assert kvtool("--version") == (0, f"kvtool {__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "command", "packages"),
    [
        ("--help", set(), {"cli", "errors"}),
        ("--version", set(), {"cli", "errors"}),
        ("generate --help", {"generate"}, {"cli", "errors", "config", "engine", "cache"}),
        ("prefill --help", {"prefill"}, {"cli", "errors", "config", "cache"}),
        ("size-calc --layers 32 --format json", {"size-calc"}, {"cli", "errors", "sizing"}),
    ],
)
def test_start_up_imports_what_is_called(args: str, command: set[str], packages: set[str]) -> None:
    found = imported(*args.split())
    assert not found & HEAVY
    modules = {name: entry.target.split(":")[0] for name, entry in COMMANDS.items()}
    assert {name for name, module in modules.items() if module in found} == command
    assert {name.split(".")[1] for name in found if name.startswith("kvtool.")} == packages


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_the_first_sentences(name: str) -> None:
    assert load(name).get_short_help_str(limit=200) == COMMANDS[name].summary


def test_typer_runner_agrees() -> None:
    result = CliRunner().invoke(app.app, ["generate", "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.stdout


def test_engine_options_are_the_fields_of_the_config() -> None:
    names = {parameter.name for parameter in load("generate").params}
    assert {field.name for field in dataclasses.fields(EngineConfig)} <= names
    assert {field.name for field in dataclasses.fields(SamplingParams)} - {"stop_ids"} <= names


def test_option_names_are_the_field_names_with_dashes() -> None:
    for parameter in load("generate").params:
        if parameter.param_type_name == "option":
            assert "--" + parameter.name.replace("_", "-") in parameter.opts


def test_defaults_are_those_of_the_config() -> None:
    values = {p.name: p.default for p in load("generate").params}
    for field in dataclasses.fields(EngineConfig):
        assert values[field.name] == field.default, field.name


def test_choices_are_the_tables() -> None:
    assert set(engine_options.PREFIX_INDEXES) == set(INDEXES)
    assert set(shift_options.DONORS) == set(DONORS)
    assert [repair.split(":")[0] for repair in shift_options.REPAIRS.split("|")] == list(RULES)
    metavars = {p.name: p.metavar or "" for p in load("generate").params}
    assert metavars["evict"].split("|") == list(POLICIES)


def test_limits_of_the_gate_are_told_as_they_are() -> None:
    told = gate_options.LIMITS
    assert Limits(float(told["gate_kl"]), float(told["gate_top1"])) == Limits()


def test_docs_are_in_step() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == "\n".join(page()), (
        "run: python -m kvtool.cli.docs > docs/cli.md"
    )


@pytest.mark.report("S75")
@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--frob"], "--frob"),
        (["generate", "--frob"], "--frob"),
        (["genrate"], "Did you mean 'generate'"),
        (["generate", "a", "b"], "(b)"),
        (["generate", "a", "--file"], "--file"),
        (["generate", "a", "--max-tokens", "-1"], "'--max-tokens': -1 is out of range"),
        (["generate", "a", "--max-tokens", "0"], "1 or more"),
        (["generate", "a", "--max-tokens", "1.0"], "'1.0' is not a whole number"),
        (["generate", "a", "--block-size", "1_6"], "'1_6' is not a whole number"),
        (["generate", "a", "--max-num-seqs", "-3"], "'--max-num-seqs'"),
        (["generate", "a", "--kv-blocks", "0"], "'--kv-blocks'"),
        (["generate", "a", "--threads", "0"], "'--threads'"),
        (["generate", "a", "--seed", "-1"], "0 or more"),
        (["generate", "a", "--kv-memory", "-1GiB"], "'-1GiB' is not a size"),
        (["generate", "a", "--kv-memory", "1GiB", "--kv-blocks", "4"], "exclude each other"),
        (["generate", "a", "--temperature", "nan"], "not a finite number"),
        (["generate", "a", "--temperature", "-0.5"], "0, or 0.01 to 100"),
        (["generate", "a", "--top-p", "0"], "above 0, at most 1"),
        (["generate", "a", "--top-k", "-1"], "'--top-k'"),
        (["generate", "a", "--min-p", "1"], "0 to below 1"),
        (["generate", "a", "--repetition-penalty", "0"], "0.01 to 100"),
        (["generate", "a", "--logit-bias", "5"], "ID=BIAS"),
        (["generate", "a", "--logit-bias", "-5=1"], "0 or more"),
        (["generate", "a", "--logprobs", "101"], "0 to 100"),
        (["generate", "a", "--stop", ""], "non-empty"),
        (["generate", "a", "--dtype", "int7"], "float32, bfloat16, float16"),
        (["generate", "a", "--device", "tpu"], "auto, cpu, cuda"),
        (["generate", "a", "--evict", "lruu"], "Did you mean 'lru'"),
        (["generate", "a", "--prefix-index", "tree"], "radix, chain"),
        (["generate", "a", "--reuse", "shft"], "Did you mean 'shift'"),
        (["generate", "a", "--reuse", "shift", "--donor", "oldest"], "similar, recent"),
        (["generate", "a", "--reuse", "shift", "--repair", "first:0"], "K is '0'"),
        (["generate", "a", "--reuse", "shift", "--repair", "attn"], "attn:SHARE"),
        (["generate", "a", "--reuse", "shift", "--repair", "attn:2"], "above 0 and up to 1"),
        (["generate", "a", "--reuse", "shift", "--min-run", "0"], "'--min-run'"),
        (["generate", "a", "--reuse", "shift", "--deterministic"], "exclude each other"),
        (["generate", "a", "--repair", "none"], "Without --reuse shift"),
        (["generate", "a", "--reuse", "prefix", "--ungated"], "--ungated would do nothing"),
        (["generate", "a", "--reuse", "none", "--min-run", "64"], "--min-run would do nothing"),
        (["prefill", "a", "--donor", "recent"], "--donor would do nothing"),
        (["inspect-cache", "--gate", ""], "'--gate'"),
        (["inspect-cache", "--gate", "x", "--rope-check", "x"], "exclude each other"),
        (["inspect-cache", "--gate", "x", "-m", "y"], "--gate names the model; drop --model"),
        (["inspect-cache", "--rope-check", "x", "-m", "y"], "--rope-check names the model"),
        (["inspect-cache", "--rope-check", "x", "/tmp"], "drop /tmp"),
        (["inspect-cache", "--gate", "x", "--deterministic"], "exclude each other"),
        (["inspect-cache", "--gate", "x", "--gate-kl", "-1"], "0 or more"),
        (["inspect-cache", "--gate", "x", "--gate-top1", "1.5"], "0 to 1"),
        (["inspect-cache", "--gate-kl", "0"], "--gate-kl goes with --gate"),
        (["inspect-cache", "--repair", "none"], "--repair goes with --gate"),
        (["inspect-cache", "--rope-check", "x", "--donor", "recent"], "--donor goes with --gate"),
        (["generate", "a", "--format", "xml"], "human, json"),
        (["generate"], "There is no prompt"),
        (["generate", "a", "--append"], "--append needs --messages"),
        (["generate", "--messages", "-", "--append"], "--append needs --messages"),
        (["generate", "--messages", "x", "--append", "--raw"], "drop --append"),
        (["generate", "a", "--batch", "x", "-s", "y"], "drop PROMPT, --system"),
        (["generate", "--messages", "x", "-s", "y"], "drop --system"),
        (["generate", "-", "-f", "-"], "named twice"),
        (["generate", "", "--batch", "x"], "drop PROMPT"),
        (["generate", "--batch", "x", "--system", ""], "drop --system"),
        (["generate", "a", "--model", ""], "'--model'"),
        (["generate", "a", "--file", ""], "'--file'"),
        (["generate", "--messages", ""], "'--messages'"),
        (["generate", "--batch", ""], "'--batch'"),
        (["generate", "a", "--cache-dir", ""], "'--cache-dir'"),
        (["generate", "a", "--cache-size", "0"], "'0' is out of range"),
        (["generate", "a", "--cache-size", "10GiBi"], "'10GiBi' is not a size"),
        (["generate", "a", "--host-memory", "-1"], "'-1' is not a size"),
        (["generate", "a", "--cache-dir", "x", "--no-cache-dir"], "exclude each other"),
        (["generate", "a", "--durable", "--no-cache-dir"], "exclude each other"),
        (["generate", "a", "--reuse", "none", "--remote", "mooncake://h:1"], "exclude each other"),
        (["generate", "a", "--remote", "http://h:1"], "http://h:1"),
        (["generate", "a", "--remote", "mooncake://"], "mooncake://"),
        (["prefill"], "There is no FILE"),
        (["prefill", "a", "--no-cache-dir"], "--no-cache-dir without --remote"),
        (["generate", "a", "--events", ""], "'--events'"),
        (["generate", "a", "--events", "-"], "stdout carries the reply"),
    ],
)
def test_usage_errors(kvtool: Run, args: list[str], named: str) -> None:
    result = kvtool(*args)
    assert (result.code, result.out) == (2, "")
    error, *hint = result.err.splitlines()
    assert error.startswith("error: ") and named in error
    assert len(hint) <= 1 and all(line.startswith("hint: ") for line in hint)
    as_json = kvtool(args[0], "--format", "json", *args[1:])
    assert (as_json.code, as_json.err) == (2, result.err)
    assert as_json.json["error"]["type"] == "ConfigError"
    assert "error: " + as_json.json["error"]["message"] == error


def raising(error: BaseException) -> Any:
    def app(args: Any) -> None:
        raise error

    return app


def test_a_user_error_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = CacheError("Too\nsmall.", hint="Raise it.")
    assert boundary.run(raising(error), ["x", "--format=json"]) == 4
    out, err = capsys.readouterr()
    assert err == "error: Too small.\nhint: Raise it.\n"
    assert out == (
        '{"error": {"type": "CacheError", "message": "Too\\nsmall.", "hint": "Raise it.", '
        '"exit_code": 4}}\n'
    )


def test_anything_else_is_an_internal_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KVTOOL_DEBUG", raising=False)
    assert boundary.run(raising(ZeroDivisionError("x / 0")), []) == 1
    err = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: x / 0; please report it" in err
    assert len(err.splitlines()) == 2 and "Traceback" not in err
    monkeypatch.setenv("KVTOOL_DEBUG", "1")
    assert boundary.run(raising(ZeroDivisionError("x / 0")), []) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.report("S76")
def test_ctrl_c_in_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted = typer.Typer()
    interrupted.command()(lambda: raising(KeyboardInterrupt())(None))
    code = boundary.run(lambda _: interrupted([], standalone_mode=False), ["--format", "json"])
    out, err = capsys.readouterr()
    assert code == 130
    assert err == "error: interrupted\n"
    assert '"exit_code": 130' in out


def test_json_is_strict_and_survives_broken_names(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json({"text": "é", "items": (1, None)})
    output.write_json({"name": "\ud800"})
    assert capsys.readouterr().out == '{"text": "é", "items": [1, null]}\n{"name": "\\ud800"}\n'
    with pytest.raises(ValueError, match="JSON compliant"):
        output.write_json({"value": float("nan")})


@contextlib.contextmanager
def into_a_full_disk(stream: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    full = open("/dev/full", "w")  # noqa: SIM115
    with monkeypatch.context() as patch:
        patch.setattr(sys, stream, full)
        yield
    with contextlib.suppress(OSError):
        full.close()


def test_stdout_that_is_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for args in (["--help"], ["--version"], [], ["size-calc", "--layers", "3"]):
        with into_a_full_disk("stdout", monkeypatch):
            assert app.run(args) == 1
        assert capsys.readouterr().err.startswith("error: Cannot write")
    with into_a_full_disk("stdout", monkeypatch):
        assert boundary.run(raising(CacheError("Too small.")), ["--format=json"]) == 4
    assert capsys.readouterr().err == "error: Too small.\n"


def test_stderr_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with into_a_full_disk("stderr", monkeypatch):
        assert boundary.run(raising(CacheError("Too small.")), []) == 4


def test_size_calc_without_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert app.run(["size-calc", "--layers", "32"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.report("S74")
def test_tables_are_plain_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.talk_table("numbers", [("one", "1"), ("three", "[red]3[/red]")])
    assert capsys.readouterr().err == "numbers\n  one    1\n  three  [red]3[/red]\n"


def test_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        closed.setattr(sys, "stdout", None)
        assert boundary.run(raising(CacheError("Too small.")), ["--format=json"]) == 4
    assert capsys.readouterr() == ("", "")
