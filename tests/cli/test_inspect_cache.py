"""`kvtool inspect-cache` on caches that `prefill` and `generate` filled."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from kvtool.cli.inspect_cache import EXAMPLES
from kvtool.gate.cases import Case, make_cases

ROOT = Path(__file__).parent.parent.parent


def test_help_needs_no_heavy_package() -> None:
    code = (
        "import sys; from kvtool.cli.app import run; assert run(['inspect-cache', '--help']) == 0; "
        "assert not {'torch', 'numpy', 'rich.console', 'sqlite3'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Look (one of):" in done.stdout


def test_looking_needs_no_torch(notes: Path, cache_folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from kvtool.cli.app import run; "
        "sys.exit(max(run(['inspect-cache', *words]) for words in "
        "([], ['--tree'], ['--check'], ['--stats'], ['--prune', 'all', '--yes'])))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_help(
    ask: Run, kvtool: Run, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cache of the tiny model; prompts are those of the demo model, whose gate is a long
    measurement: here six tokens of one case, which say nothing about its limit."""

    def one_case(*parts: Any) -> list[Case]:
        case = make_cases(*parts)[-1]
        return [case._replace(answer=case.answer[:6])]

    monkeypatch.setattr("kvtool.cli.inspect_gate.make_cases", one_case)
    ask("hello")
    monkeypatch.chdir(ROOT)
    limit = ("--gate-kl", "0.1") if "--gate" in example else ()
    result = kvtool(*shlex.split(example)[1:], *limit)
    assert result.code == 0, result.err
    assert result.out.strip()


def test_overview(ask: Run, document: Any, inspect: Run) -> None:
    ask("hello")
    ask("hello", "--salt", "secret")
    found = document()
    assert list(found) == ["tiers", "entries", "gates"]
    (tier,) = found["tiers"]
    assert tier["cap_bytes"] == 10 * 2**30
    assert tier["entries"] == len(found["entries"]) == 2
    for total, part in (("blocks", "blocks"), ("tokens", "tokens"), ("bytes", "bytes")):
        assert tier[total] == sum(entry[part] for entry in found["entries"])
    assert set(found["entries"][0]) == {
        *("key", "namespace", "start", "tokens", "blocks", "bytes", "tier", "created"),
        *("last_used", "hits", "pinned", "exact", "provenance"),
    }
    shown = inspect().out
    assert shown.startswith("disk  ") and "LlamaForCausalLM" in shown
    assert ", salt set  1 run" in shown


@pytest.mark.report("S65")
def test_salts_are_printed_nowhere(ask: Run, inspect: Run, cache_folder: Path) -> None:
    assert 'cached_tokens": 0' in ask("hello", "--salt", "alice", "--format", "json").out
    others = ask("hello", "--salt", "bob", "--format", "json").json
    assert others["usage"]["cached_tokens"] == 0
    for args in ([], ["--tree"], ["--why", "hello"], ["--why", "hello", "--salt", "bob"]):
        for format in ("human", "json"):
            result = inspect(*args, "--format", format)
            assert result.code == 0
            assert "alice" not in result.out + result.err and "bob" not in result.out + result.err
    same = inspect("--why", "hello", "--salt", "alice", "--format", "json").json
    assert same["hit_tokens"] == same["prompt_tokens"] - 1  # so that "off" does not pass


def test_cache_dir_names_the_folder_as_for_other_commands(
    kvtool: Run, notes: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KVTOOL_CACHE_DIR")
    by_option = kvtool("inspect-cache", "--cache-dir", cache_folder)
    assert (by_option.code, by_option.out) == (0, kvtool("inspect-cache", cache_folder).out)
    assert str(cache_folder) in by_option.out


def test_statistics(ask: Run, document: Any, inspect: Run, tmp_path: Path) -> None:
    ask("hello there")
    ask("hello there", "--salt", "s")
    found = document("--stats")["statistics"]
    assert [row["namespace"]["number"] for row in found] == [1, 2]
    assert [(part["layer"], part["part"]) for part in found[0]["parts"]] == [
        *((0, "key"), (0, "value"), (1, "key"), (1, "value"))
    ]
    plot = tmp_path / "kv.svg"
    result = inspect("--stats", "--plot", plot)
    assert result.code == 2 and "--key" in result.err
    key = document()["entries"][0]["key"]
    assert "layer" in inspect("--stats", "--key", key, "--plot", plot).out
    assert plot.read_text().startswith("<svg")
    assert inspect("--stats", "--plot", tmp_path / "kv.gif").code == 2


def test_export_and_import(
    ask: Run, document: Any, inspect: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("hello there")
    out = tmp_path / "prefix.safetensors"
    exported = document("--export", f"hf:{out}")
    (entry,) = document()["entries"]
    assert (exported["key"], exported["num_tokens"]) == (entry["key"], entry["tokens"])
    monkeypatch.setenv("KVTOOL_CACHE_DIR", str(tmp_path / "other"))
    assert inspect("--import", f"hf:{out}").code == 2
    assert not (tmp_path / "other").exists()
    imported = document("--import", f"hf:{out}", "--yes")
    assert imported["num_tokens"] == entry["tokens"]
    assert document()["entries"][0]["provenance"] == "import"
    usage = ask("hello there", "--format", "json").json["usage"]
    assert usage["cached_tokens"] == usage["prompt_tokens"] - 1


def test_export_of_several_sequences_asks_which(ask: Run, inspect: Run, tmp_path: Path) -> None:
    ask("hello")
    ask("other")
    result = inspect("--export", f"hf:{tmp_path / 'out'}")
    assert result.code == 2 and "Name its last run with --key" in result.err
