"""`kvtool inspect-cache` on caches that `prefill` and `generate` filled."""

from __future__ import annotations

import functools
import pickle
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run

from kvtool.cli.inspect_cache import EXAMPLES
from kvtool.gate.cases import Case, make_cases

ROOT = Path(__file__).parent.parent.parent
NOTES = "The pool has 2048 blocks. A block is freed when nobody uses it."
QUESTION = "Who frees a block?"


@pytest.fixture
def inspect(kvtool: Run, tiny: Path) -> Run:
    """`kvtool inspect-cache` on the cache folder of the test, with the tiny model for prompts."""

    def run(*args: str | Path) -> Any:
        return kvtool("inspect-cache", "--model", tiny, "--dtype", "fp32", *args)

    return run


@pytest.fixture
def document(inspect: Run) -> Any:
    """The same, as JSON; the exit code is 0."""

    def run(*args: str | Path) -> Any:
        result = inspect(*args, "--format", "json")
        assert result.code == 0, result.err
        assert result.out.count("\n") == 1
        return result.json

    return run


@pytest.fixture
def ask(generate: Run) -> Run:
    return functools.partial(generate, "--max-tokens", "2")


@pytest.fixture
def notes(kvtool: Run, tiny: Path, tmp_path: Path) -> Path:
    """A file whose KV is kept."""
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    assert kvtool("prefill", path, "--model", tiny, "--dtype", "fp32").code == 0
    return path


def run_files(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir())


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


@pytest.mark.report("S31")
def test_check(ask: Run, inspect: Run, document: Any, cache_folder: Path) -> None:
    ask("hello")
    assert document("--check") == {"ok": True, "checked": 1, "damaged": [], "unreachable": 0}
    (path,) = run_files(cache_folder)
    (cache_folder / "stray").touch()
    result = inspect("--check")
    assert (result.code, result.err) == (0, "")
    assert "stray: not a file of the cache" in result.out and "all is well" in result.out
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    result = inspect("--check", "--format", "json")
    assert result.code == 4
    assert result.json["ok"] is False
    assert [damage["file"] for damage in result.json["damaged"]] == ["stray", f"runs/{path.name}"]
    assert "1 thing in the cache folder is damaged" in result.err
    result = inspect("--check")
    assert (result.code, f"runs/{path.name}: " in result.out) == (4, True)
    assert inspect("--repair-index", "--yes").code == 0
    assert inspect("--check").code == 0
    assert document()["entries"] == []


def test_a_lost_index_is_made_anew(
    ask: Run, inspect: Run, document: Any, cache_folder: Path
) -> None:
    ask("hello")
    before = document("--why", "hello")
    for path in cache_folder.glob("index.sqlite*"):
        path.write_bytes(b"not an index")
    result = inspect()
    assert result.code == 4
    assert "--repair-index" in result.err
    assert document("--repair-index", "--yes") == {
        "action": "repair-index",
        "kept": 1,
        "dropped": [],
    }
    assert document("--why", "hello") == before


def test_pin_and_unpin(ask: Run, inspect: Run, document: Any) -> None:
    ask("hello")
    (entry,) = document()["entries"]
    change = {"keys": [entry["key"]], "tokens": entry["tokens"], "bytes": entry["bytes"], "kept": 0}
    assert document("--pin", entry["key"][:8], "--yes") == {"action": "pin", **change}
    assert document()["entries"][0]["pinned"] is True
    assert document()["tiers"][0]["pinned_bytes"] == entry["bytes"]
    assert document("--prune", "all", "--yes")["keys"] == []
    assert document("--unpin", entry["key"], "--yes") == {"action": "unpin", **change}
    assert document("--prune", "all", "--yes") == {"action": "prune", **change}
    assert document()["entries"] == []


def test_nothing_changes_without_a_yes(ask: Run, inspect: Run, document: Any) -> None:
    ask("hello")
    (entry,) = document()["entries"]
    key = entry["key"][:12]
    for args in (["--pin", key], ["--unpin", key], ["--prune", "all"], ["--repair-index"]):
        result = inspect(*args)
        assert (result.code, result.out) == (2, "")
        assert "Add --yes" in result.err
    assert "would remove 1 run" in inspect("--prune", "all").err
    assert key in inspect("--prune", "all").err
    assert document()["entries"] == [entry]


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


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (["--tree", "--check"], 2, "--tree and --check exclude each other"),
        (["--why", "a", "--diff", "a", "b"], 2, "--why and --diff exclude"),
        (["--file", "x", "--tree"], 2, "--tree and --file exclude"),
        (["--pin", "a", "--unpin", "b"], 2, "--pin and --unpin exclude"),
        (["--why", "--file"], 2, "'--file' is no PROMPT"),
        (["--why"], 2, "requires an argument"),
        (["--diff", "a"], 2, "--diff"),
        (["--show-text"], 2, "--show-text goes with --tree or --diff"),
        (["--key", "a"], 2, "--key goes with --stats or --export"),
        (["--plot", "a.svg"], 2, "--plot goes with --stats"),
        (["--raw"], 2, "--raw goes with --why or --diff"),
        (["--yes"], 2, "--yes goes with"),
        (["--prune", "old"], 2, "allowed: all, older:AGE"),
        (["--prune", "older:7"], 2, "older:AGE"),
        (["--export", "out"], 2, "hf:PATH"),
        (["--import", "hf:"], 2, "hf:PATH"),
        (["--import", "hf:-", "--yes"], 2, "hf:PATH"),
        (["--export", "hf:-"], 2, "hf:PATH"),
        (["--diff", "00", "nowhere.txt"], 4, "no cache in"),
        (["/a", "--cache-dir", "/b"], 2, "DIR is '/a' and --cache-dir is '/b'; give one"),
        (["/nowhere/at-all", "--repair-index", "--yes"], 4, "no cache in"),
        (["--import", "hf:/nowhere/in", "--yes"], 5, "/nowhere/in is not a file"),
        (["http://127.0.0.1:1"], 2, "mooncake://"),
        (["mooncake://127.0.0.1:1", "--tree"], 2, "cannot list"),
        (["/nowhere/at-all"], 4, "no cache in /nowhere/at-all"),
        (["/nowhere/at-all", "--check"], 4, "no cache in"),
        ([], 4, "no cache in"),
        (["--why", "a"], 4, "no cache in"),
    ],
)
def test_mistakes(kvtool: Run, args: list[str], code: int, named: str) -> None:
    result = kvtool("inspect-cache", *args)
    assert (result.code, result.out) == (code, "")
    assert named in result.err
    assert result.err.startswith("error: ")
    as_json = kvtool("inspect-cache", "--format", "json", *args)
    assert as_json.json["error"]["exit_code"] == code


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (["--why", "a", "--file", "/nowhere"], 5, "Cannot read '/nowhere'"),
        (["--why", ""], 5, "PROMPT is empty"),
        (["--why", "a", "--messages", "-", "--file", "-"], 2, "named twice"),
        (["--messages", "-", "--system", "s"], 2, "has its own system message"),
        (["--why", "a", "--model", "/nowhere/model"], 3, "/nowhere/model"),
        (["--diff", "00", "01", "--raw"], 2, "--diff of two files"),
        (["--diff", "00", "01"], 4, "No run's key begins with '00'"),
        (["--diff", "00", "a.txt"], 2, "'00' is a key, 'a.txt' a file"),
        (["--diff", "nowhere.txt", "a.txt"], 5, "Cannot read 'nowhere.txt'"),
        (["--diff", "-", "-"], 2, "named twice"),
        (["--diff", "", "a.txt"], 5, "Cannot read ''"),
        (["--pin", "00", "--yes"], 4, "No run's key begins with '00'"),
        (["--prune", "00", "--yes"], 4, "No run's key begins with '00'"),
        (["--import", "hf:/nowhere/in", "--yes"], 5, "/nowhere/in"),
    ],
)
def test_mistakes_about_what_is_stored(
    notes: Path, inspect: Run, args: list[str], code: int, named: str
) -> None:
    result = inspect(*args)
    assert (result.code, result.out) == (code, "")
    assert named in result.err
    assert result.err.startswith("error: ")


def test_a_folder_that_is_no_cache(kvtool: Run, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    result = kvtool("inspect-cache", tmp_path)
    assert result.code == 4
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.report("S70")
@pytest.mark.parametrize(
    "name", ["../x", "/nowhere/x", "a/../../x", "x\x00y", "a" * 300, "CON", "*", "?", ".", "%2e"]
)
def test_names_of_runs_never_become_paths(
    ask: Run, inspect: Run, name: str, cache_folder: Path
) -> None:
    ask("hello")
    before = {path: path.stat().st_size for path in run_files(cache_folder)}
    for action in (["--pin"], ["--unpin"], ["--stats", "--key"], ["--prune"]):
        result = (
            inspect(*action, name, "--yes") if "--key" not in action else inspect(*action, name)
        )
        assert result.code in (2, 4), result.err
        assert "internal" not in result.err
    assert inspect("--diff", name, name).code in (4, 5)  # a key, or a file that the user names
    assert {path: path.stat().st_size for path in run_files(cache_folder)} == before


class Marker:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.report("S71")
@pytest.mark.parametrize("victim", ["run", "index", "import"])
def test_a_pickle_is_never_loaded(
    ask: Run, inspect: Run, document: Any, cache_folder: Path, tmp_path: Path, victim: str
) -> None:
    ask("hello")
    key = document()["entries"][0]["key"]
    marker = tmp_path / "marker"
    payload = pickle.dumps(Marker(marker))
    stranger = tmp_path / "in.safetensors"
    stranger.write_bytes(payload)
    paths = {"run": run_files(cache_folder)[0], "index": cache_folder / "index.sqlite"}
    if victim in paths:
        paths[victim].chmod(0o600)
        paths[victim].write_bytes(payload)
    for args in (
        [],
        ["--tree", "--show-text"],
        ["--why", "hello"],
        ["--diff", key, key],
        ["--check"],
        ["--stats"],
        ["--export", f"hf:{tmp_path / 'out'}", "--key", key],
        ["--import", f"hf:{stranger}", "--yes"],
        ["--pin", key, "--yes"],
        ["--unpin", key, "--yes"],
        ["--prune", "all", "--yes"],
        ["--repair-index", "--yes"],
    ):
        result = inspect(*args)
        assert result.code in (0, 4, 5), (args, result.err)
        assert "internal" not in result.err
    assert ask("hello").code == 0
    assert not marker.exists()
    pickle.loads(payload)  # so that a payload that does nothing does not pass
    assert marker.exists()


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


def test_diff_reads_streams_and_knows_what_is_the_same(
    kvtool: Run, tiny: Path, notes: Path, inspect: Run
) -> None:
    model = ("--model", tiny, "--dtype", "fp32")
    piped = kvtool("inspect-cache", "--diff", "-", notes, *model, stdin=NOTES.encode())
    assert piped.code == 0, piped.err
    assert "No token differs where both are known: they are the same." in piped.out
    longer = kvtool("inspect-cache", "--diff", "-", notes, *model, stdin=b"x")
    assert "The first difference is at token" in longer.out


def test_cache_dir_names_the_folder_as_for_other_commands(
    kvtool: Run, notes: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KVTOOL_CACHE_DIR")
    by_option = kvtool("inspect-cache", "--cache-dir", cache_folder)
    assert (by_option.code, by_option.out) == (0, kvtool("inspect-cache", cache_folder).out)
    assert str(cache_folder) in by_option.out


def test_a_missing_cache_is_not_made_by_looking_repairing_or_a_mistake(
    inspect: Run, cache_folder: Path, tmp_path: Path
) -> None:
    for action in (["--repair-index", "--yes"], ["--check"], ["--import", "hf:/nowhere", "--yes"]):
        assert inspect(*action).code in (4, 5)
        assert not cache_folder.exists()


@pytest.mark.parametrize("below", ["x.png", "runs/x.png"])
def test_nothing_is_written_into_the_cache_folder(
    inspect: Run, ask: Run, notes: Path, cache_folder: Path, tmp_path: Path, below: str
) -> None:
    (tmp_path / "link").symlink_to(cache_folder)
    before = sorted(cache_folder.rglob("*"))
    for folder in (cache_folder, tmp_path / "link"):
        target = folder / below
        refused = [
            inspect("--stats", "--plot", target),
            inspect("--export", f"hf:{target}"),
            ask("hello", "--events", target),
            ask("hello", "--append", "--messages", target),
        ]
        for result in refused:
            assert result.code == 2 and "lies in the cache folder" in result.err
    assert sorted(cache_folder.rglob("*")) == before
    assert inspect("--check").code == 0


@pytest.mark.report("S74")
def test_no_name_in_a_message_reaches_the_terminal(kvtool: Run, tiny: Path, tmp_path: Path) -> None:
    odd = tmp_path / "\x1b[2J\x07\x9b"
    odd.mkdir()
    (odd / "empty").touch()
    (odd / "bad").write_bytes(b"\xff")
    model = ("--model", tiny, "--dtype", "fp32")
    for args in (
        ("inspect-cache", odd / "nowhere"),
        ("inspect-cache", "--import", f"hf:{odd}/no", "--yes"),
        ("prefill", odd / "empty", *model),
        ("prefill", odd / "bad", *model),
        ("generate", "--messages", odd / "bad", *model),
        ("generate", "x", "--model", odd),
    ):
        result = kvtool(*args)
        assert result.code in (3, 4, 5)
        assert result.out + result.err.replace("\n", "") == printable_only(result)
        assert "\\x1b[2J" in result.err


def printable_only(result: Any) -> str:
    return "".join(c for c in result.out + result.err if c.isprintable())
