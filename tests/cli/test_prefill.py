"""`kvtool prefill`, and what a later run finds of it. Every run here has a block pool of its own."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import model_files
import pytest
from command_line import Run

from kvtool.cli.rendering import render_beginning, render_prompt
from kvtool.models.tokenizer import Tokenizer, load_tokenizer

TEXT = "the quick brown fox jumps over the lazy dog\n" * 4
BOTH = ("--max-tokens", "4", "--format", "json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = model_files.tiny_model(max_position_embeddings=2048)
    return model_files.save_folder(tmp_path_factory.mktemp("models") / "model", model)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


@pytest.fixture
def prefill(kvtool: Run, folder: Path) -> Run:
    return functools.partial(kvtool, "prefill", "--model", folder, "--dtype", "fp32")


@pytest.fixture
def generate(kvtool: Run, folder: Path) -> Run:
    return functools.partial(kvtool, "generate", "--model", folder, "--dtype", "fp32")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text(TEXT)
    return path


def shared(one: list[int], other: list[int]) -> int:
    return next(i for i, (a, b) in enumerate(zip([*one, -1], [*other, -2])) if a != b)


def user(content: str) -> list[Any]:
    return [{"role": "user", "content": content}]


@pytest.mark.report("S46")
def test_generate_starts_from_what_prefill_kept(
    prefill: Run, generate: Run, notes: Path, tokenizer: Tokenizer
) -> None:
    done = prefill(notes, "--format", "json")
    assert (done.code, done.err) == (0, "")
    text = TEXT.removesuffix("\n")
    kept = render_beginning(tokenizer, user(text), raw=False).token_ids
    asked = render_prompt(
        tokenizer, user(f"{text}\n\nwhy?"), raw=False, vocab_size=tokenizer.vocab_size
    ).token_ids
    (file,) = done.json["files"]
    per_token = done.json["effective"]["kv_bytes_per_token"]
    assert file["prompt_tokens"] == file["computed_tokens"] == file["stored_tokens"] == len(kept)
    assert (file["cached_tokens"], file["shifted_tokens"], file["recomputed_tokens"]) == (0, 0, 0)
    assert (file["tier"], file["stored_bytes"]) == ("disk", len(kept) * per_token)
    warm = generate("--file", notes, "why?", *BOTH).json
    assert warm["usage"]["cached_tokens"] == shared(kept, asked) == len(kept)
    assert warm["usage"]["computed_tokens"] == len(asked) - len(kept)
    assert warm["cache"]["cached_by_tier"] == {"disk": len(kept)}
    cold = generate("--file", notes, "why?", "--no-cache-dir", *BOTH).json
    assert cold["usage"]["cached_tokens"] == 0
    assert warm["token_ids"] == cold["token_ids"]


def test_only_the_token_across_the_boundary_is_computed_anew(
    prefill: Run, generate: Run, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """`--raw` with a reply at the end: "th" + "e" is one token when they stand together."""
    first, whole = tmp_path / "first.txt", tmp_path / "whole.txt"
    first.write_text("the quick brown fox jumps over th")
    whole.write_text("the quick brown fox jumps over the lazy dog")
    kept, asked = (tokenizer.encode(path.read_text()) for path in (first, whole))
    common = shared(kept, asked)
    assert common < len(kept)
    assert prefill(first, "--raw").code == 0
    usage = generate("--file", whole, "--raw", *BOTH).json["usage"]
    assert usage["cached_tokens"] == common


def test_the_second_prefill_computes_one_token(prefill: Run, notes: Path) -> None:
    first, second = (prefill(notes, "--format", "json").json["files"][0] for _ in range(2))
    assert second["cached_tokens"] == first["prompt_tokens"] - 1
    assert second["computed_tokens"] == 1
    for field in ("stored_tokens", "stored_bytes", "tier"):
        assert second[field] == first[field]


def test_each_file_is_a_prompt_unless_concatenated(
    prefill: Run, generate: Run, notes: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("user assistant system " * 5)
    each = prefill(notes, more, "--format", "json").json["files"]
    assert [file["name"] for file in each] == [str(notes), str(more)]
    files = ("--file", notes, "--file", more)
    assert (
        generate(*files, "x", *BOTH).json["usage"]["cached_tokens"] < each[0]["prompt_tokens"] + 2
    )
    (both,) = prefill(notes, more, "--concat", "--salt", "s", "--format", "json").json["files"]
    assert both["name"] == f"{notes} + {more}"
    usage = generate(*files, "x", "--salt", "s", *BOTH).json["usage"]
    assert usage["cached_tokens"] == both["prompt_tokens"] == both["stored_tokens"]


@pytest.mark.parametrize("options", [("--raw",), ("--system", "Be brief."), ("--deterministic",)])
def test_the_same_options_find_it(
    prefill: Run, generate: Run, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "long.txt"
    path.write_text(TEXT * 10)
    (file,) = prefill(path, *options, "--format", "json").json["files"]
    usage = generate("--file", path, "why?", *options, *BOTH).json["usage"]
    assert usage["cached_tokens"] == file["stored_tokens"] > 0
    others = generate("--file", path, "why?", *BOTH).json["usage"]
    assert others["cached_tokens"] < 8  # what every prompt of this template begins with


def test_stdin(prefill: Run, generate: Run) -> None:
    done = prefill("-", "--format", "json", stdin=TEXT.encode())
    (file,) = done.json["files"]
    assert (done.code, file["name"]) == (0, "-")
    usage = generate("--file", "-", "why?", *BOTH, stdin=TEXT.encode()).json["usage"]
    assert usage["cached_tokens"] == file["stored_tokens"] == file["prompt_tokens"]


def test_the_human_view(prefill: Run, generate: Run, notes: Path, folder: Path) -> None:
    done = prefill(notes, "--system", "Be brief.", "--salt", "secret")
    assert (done.code, done.err) == (0, "")
    line, following = done.out.splitlines()
    assert line.startswith(f"{notes}: ") and "0 from the cache" in line and "kept on disk" in line
    assert following == (
        f"next: kvtool generate --file {notes} 'Your question' --system 'Be brief.' "
        f"--model {folder} --dtype float32 --salt …"
    )


def test_chain_and_deterministic_say_what_they_cannot_keep(prefill: Run, notes: Path) -> None:
    done = prefill(notes, "--prefix-index", "chain", "--format", "json")
    (file,) = done.json["files"]
    assert done.code == 0
    assert file["stored_tokens"] == file["prompt_tokens"] // 16 * 16
    assert "only multiples of 16 tokens" in done.err
    none = prefill(notes, "--deterministic", "--format", "json")
    assert none.code == 4
    assert none.json["files"][0]["stored_tokens"] == 0  # one document, and it is the report
    assert "warning: " in none.err and "only multiples of 256 tokens" in none.err
    assert "error: Nothing is kept of the prompt." in none.err


@pytest.mark.report("S46")
def test_what_made_room_is_not_reported_as_kept(prefill: Run, notes: Path) -> None:
    done = prefill(notes, "--cache-size", "4KiB", "--format", "json")
    (file,) = done.json["files"]
    assert (done.code, file["stored_tokens"], file["stored_bytes"]) == (4, 0, 0)
    assert "warning: " in done.err and "error: Nothing is kept" in done.err


@pytest.mark.report("S65")
@pytest.mark.report("S68")
def test_salts_are_isolated_on_disk(
    prefill: Run, generate: Run, notes: Path, cache_folder: Path
) -> None:
    kept = prefill(notes, "--salt", "a", "--format", "json").json["files"][0]["stored_tokens"]
    ask = ("--file", notes, "why?", *BOTH)
    for salt in (("--salt", "b"), ("--salt", ""), ()):
        assert generate(*ask, *salt).json["usage"]["cached_tokens"] == 0
    assert generate(*ask, "--salt", "a").json["usage"]["cached_tokens"] == kept
    assert all(
        b"secret" not in path.read_bytes() for path in cache_folder.rglob("*") if path.is_file()
    )


@pytest.mark.report("S65")
def test_salts_are_isolated_in_memory(generate: Run) -> None:
    requests = [{"prompt": TEXT, "salt": salt} for salt in ("a", "b", "a", "")]
    lines = "\n".join(map(json.dumps, [*requests, {"prompt": TEXT}])).encode()
    options = ("--max-num-seqs", "1", "--max-tokens", "1", "--no-cache-dir")
    usages = [line["usage"] for line in generate("--batch", "-", *options, stdin=lines).lines]
    cached = [usage["cached_tokens"] for usage in usages]
    assert cached == [0, 0, usages[0]["prompt_tokens"] - 1, 0, 0]


@pytest.mark.report("S49")
def test_another_model_setting_never_hits(kvtool: Run, tmp_path: Path, notes: Path) -> None:
    """Two folders of one name; each setting misses at first and finds its own KV later."""
    linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
    other = model_files.tiny_model()
    for parameter in other.parameters():
        parameter.data.mul_(1.01)
    models = {
        "first": model_files.tiny_model(),
        "weights": other,
        "rope": model_files.tiny_model(rope_parameters=linear),
    }
    paths = {
        name: model_files.save_folder(tmp_path / name / "model", model)
        for name, model in models.items()
    }
    settings = [
        ("--model", paths["first"], "--dtype", "fp32"),
        ("--model", paths["weights"], "--dtype", "fp32"),
        ("--model", paths["rope"], "--dtype", "fp32"),
        ("--model", paths["first"], "--dtype", "bf16"),
        ("--model", paths["first"], "--dtype", "fp32", "--block-size", "32"),
    ]
    for expected in ("nothing", "all"):
        for options in settings:
            usage = kvtool("generate", "--file", notes, *options, *BOTH).json["usage"]
            hit = usage["prompt_tokens"] - 1 if expected == "all" else 0
            assert usage["cached_tokens"] == hit, options


@pytest.mark.report("S70")
@pytest.mark.parametrize(
    ("args", "stdin", "code", "error"),
    [
        ((), b"", 2, "There is no FILE"),
        (("-", "-"), b"x", 2, "stdin (-) is named twice"),
        (("",), b"", 2, "it is empty"),
        (("FILE", "--no-cache-dir"), b"", 2, "--no-cache-dir without --remote keeps no KV"),
        (("FILE", "--reuse", "none"), b"", 2, "--reuse none keeps no KV"),
        (("FILE", "--no-cache-dir", "--durable"), b"", 2, "exclude each other"),
        (("nowhere.txt",), b"", 5, "'nowhere.txt'"),
        (("FILE", "../nowhere"), b"", 5, "'../nowhere'"),
        (("a\0b",), b"", 5, "'a\\x00b'"),
        (("x" * 300,), b"", 5, "File name too long"),
        ((".",), b"", 5, "Is a directory"),
        (("-",), b"", 5, "stdin is empty"),
        (("-",), b"\n", 5, "stdin is empty"),
        (("FILE", "-"), b"\xff", 5, "stdin is not UTF-8"),
        (("FILE", "-"), b"word " * 3000, 5, "stdin: The prompt has "),
        (("FILE", "--kv-blocks", "2"), b"", 4, "are missing"),
        (("FILE", "--host-memory", "1B"), b"", 2, "--host-memory is 1 B; allowed: 0 for none, or "),
        (("FILE", "--cache-dir", "a\0b"), b"", 2, "cannot be a cache folder"),
    ],
)
def test_errors(
    prefill: Run,
    notes: Path,
    cache_folder: Path,
    args: tuple[str, ...],
    stdin: bytes,
    code: int,
    error: str,
) -> None:
    result = prefill(*(notes if arg == "FILE" else arg for arg in args), stdin=stdin)
    assert (result.code, result.out) == (code, "")
    first, *rest = result.err.splitlines()
    assert first.startswith("error: ") and error in first
    assert len(rest) <= 1 and "Traceback" not in result.err
    assert not list(cache_folder.rglob("*.safetensors"))


@pytest.mark.report("S70")
def test_odd_names_are_only_names(prefill: Run, tmp_path: Path, cache_folder: Path) -> None:
    names = ("CON", "two\nlines\x1b[31m", "../kv/x", "\udcff", "'; echo")
    (tmp_path / "work").mkdir()
    (tmp_path / "kv").mkdir()
    for name in names:
        path = tmp_path / "work" / name
        path.write_text(f"{TEXT} {names.index(name)}")
        done = prefill(path)
        assert (done.code, done.err) == (0, ""), name
        assert len(done.out.splitlines()) == 2 and "\x1b" not in done.out
        as_json = prefill(path, "--format", "json")
        assert as_json.json["files"][0]["name"] == str(path)
    assert sorted(p.name for p in (tmp_path / "kv").iterdir()) == ["x"]
    assert all(path.is_relative_to(cache_folder) for path in cache_folder.rglob("*"))


def test_no_next_command_where_nothing_is_kept(prefill: Run, notes: Path) -> None:
    none = prefill(notes, "--cache-size", "4KiB")
    assert none.code == 4 and "next: " not in none.out
    assert "next: kvtool generate --file" in prefill(notes).out


def test_the_next_command_is_about_a_prompt_that_is_still_there(
    prefill: Run, tmp_path: Path, notes: Path
) -> None:
    others = [tmp_path / f"{number}.md" for number in range(3)]
    for other in others:
        other.write_text(f"{other.name} " * 8)
    lines = prefill(*others, "--raw", "--cache-size", "24KiB").out.splitlines()
    kept = {}
    for line in lines[:3]:
        name, _, counts = line.partition(": ")
        kept[name] = int(counts.split("; ")[1].split()[0])
    assert len(set(kept.values())) > 1, "not all of them have room"
    (named,) = [
        name for name in kept if lines[3].startswith(f"next: kvtool generate --file {name} ")
    ]
    assert kept[named] == max(kept.values())


@pytest.mark.report("S74")
def test_the_next_command_can_be_run(prefill: Run, tmp_path: Path) -> None:
    odd = tmp_path / "it's\n\x1b[31m\\ \u00e9.md"
    odd.write_text("The pool has 2048 blocks.")
    (line,) = [
        line
        for line in prefill(odd, "--system", "Be\tbrief.").out.splitlines()
        if line.startswith("next: ")
    ]
    assert line.isprintable()
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line.removeprefix('next: ')}"],
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    assert str(odd).encode() in words and b"Be\tbrief." in words


def test_a_folder_of_home_and_one_that_cannot_be(
    prefill: Run, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert prefill(notes, "--cache-dir", "~/kept").code == 0
    assert (tmp_path / "kept" / "runs").is_dir()
    monkeypatch.setenv("KVTOOL_CACHE_DIR", "~/by-environment")
    assert prefill(notes).code == 0
    assert (tmp_path / "by-environment" / "runs").is_dir()
    for name in ("b\udcff", "a\0b", "~nobody-of-this-name/kv"):
        refused = prefill(notes, "--cache-dir", name)
        assert refused.code == 2 and "cannot be a cache folder" in refused.err
