"""`kvtool size-calc`: the contract's figures, both views, bad input, start-up."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from kvtool.cli.size_calc import EXAMPLES
from kvtool.sizing.report import SizeReport

ROOT = Path(__file__).parent.parent.parent
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
}


@pytest.fixture
def size_calc(kvtool: Run) -> Any:
    def run(*args: str | Path) -> dict[str, Any]:
        result = kvtool("size-calc", *args, "--format", "json")
        assert (result.code, result.err) == (0, "")
        return result.json  # type: ignore[no-any-return]

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--layers 32", 2147483648),
        ("--layers 32 --kv-heads 32 --head-dim 128 --tokens 4096 --kv-dtype bf16", 2147483648),
        ("--layers 32 --batch 16", 34359738368),
        ("--layers 32 --batch 32", 68719476736),
        ("--layers 32 --dtype fp8", 1073741824),
        ("--layers 61 --kv-lora-rank 512 --tokens 1", 70272),
    ],
)
@pytest.mark.report("S56")
def test_figures_of_the_contract(size_calc: Any, args: str, expected: int) -> None:
    assert size_calc(*args.split())["bytes"] == expected


def test_json_has_every_field(size_calc: Any, config: Path) -> None:
    report = size_calc(config, "--memory", "16GiB")
    assert list(report) == [field.name for field in dataclasses.fields(SizeReport)]
    assert report["effective"]["kv_dtype"] == "bfloat16"
    assert len(report["per_layer"]) == 32
    assert report["max_tokens"] == 131072
    assert report["max_concurrency"] == 32
    assert report["reserved_bytes"] == 16 * 2**30
    assert set(report["variants"]) == {"mha", "gqa", "mqa", "mla"}
    assert report["vllm_lines"] == [
        "GPU KV cache size: 131,072 tokens",
        "Maximum concurrency for 4,096 tokens per request: 32.00x",
    ]


@pytest.mark.report("S55")
def test_minimum_and_allocation_of_windowed_layers(size_calc: Any) -> None:
    args = "--layers 30 --kv-heads 8 --sliding-window 1024 --sliding-layers 25"
    long = size_calc(*args.split(), "--tokens", "131072")
    row = 2 * 8 * 128 * 2
    assert long["bytes"] == (25 * 1024 + 5 * 131072) * row
    assert long["allocated_bytes"] == (25 * 1040 + 5 * 131072) * row
    assert long["full_length_bytes"] == 30 * 131072 * row
    assert [(g["kind"], g["layers"]) for g in long["groups"]] == [("sliding", 25), ("full", 5)]


def test_human_view(kvtool: Run, config: Path) -> None:
    result = kvtool("size-calc", config, "--memory", "8GiB", "--tokens", "8192")
    assert (result.code, result.err) == (0, "")
    for part in (
        "1.0 GiB  (1,073,741,824 bytes)",
        "2 · 32 layers · 8192 tokens · 8 KV heads · 128 head_dim · 2 B = 1,073,741,824 B",
        "8 KV heads x 128",
        "████████████████████████ 100%",
        "65,536 tokens, 1 at a time",
        "8 of 8,192 tokens",
        "GPU KV cache size: 65,536 tokens",
        "4.00 FLOP/byte: attention is memory-bound on every GPU of the table",
    ):
        assert part in result.out
    assert "\x1b" not in result.out


def test_the_memory_of_a_gpu_adds_up(kvtool: Run) -> None:
    args = "--layers 32 --kv-heads 8 --gpu h100 --weights 15GiB --utilization 0.8"
    said = kvtool("size-calc", *args.split()).out
    assert "0.8 of 79.2 GiB, less 15.0 GiB weights and 5.0 GiB overhead" in said
    assert "memory for KV    43.3 GiB" in said


@pytest.mark.parametrize(
    ("rate", "shown"),
    [("4GiB", "125 ms"), ("512MiB", "1 s"), ("1MiB", "512 s"), ("128KiB", "4,096 s")],
)
def test_long_times_are_seconds(kvtool: Run, rate: str, shown: str) -> None:
    args = ("--layers", "32", "--kv-heads", "8", "--link-bandwidth", rate)
    assert f"link 1  {shown} at" in kvtool("size-calc", *args).out


def test_hints(kvtool: Run, config: Path) -> None:
    unknown = kvtool("size-calc", "--layers", "2", "--kv-dtype", "zzz").err
    assert "allowed: float32, bfloat16, float16, fp8," in unknown
    assert "hint: The default is bfloat16." in unknown
    assert "hint: A MODEL brings" in kvtool("size-calc", config, "--layers", "2").err


def test_per_layer_view(kvtool: Run) -> None:
    plain = kvtool("size-calc", "--layers", "3")
    detailed = kvtool("size-calc", "--layers", "3", "--per-layer")
    assert len(detailed.out.splitlines()) == len(plain.out.splitlines()) + 5


def test_config_on_stdin_folder_and_file_agree(kvtool: Run, size_calc: Any, config: Path) -> None:
    by_file = size_calc(config)
    by_folder = size_calc(config.parent)
    piped = kvtool("size-calc", "-", "--format", "json", stdin=config.read_bytes()).json
    for other in (by_folder, piped):
        assert {**other, "model": None} == {**by_file, "model": None}


def test_weights_come_from_the_folder(size_calc: Any, config: Path) -> None:
    index = config.parent / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 15 * 2**30}, "weight_map": {}}))
    report = size_calc(config.parent, "--gpu", "h100", "--tp", "2")
    assert report["memory"]["weight_bytes"] == 15 * 2**29
    assert report["ridge_point"] == pytest.approx(295.2, abs=0.1)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_plot(size_calc: Any, config: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"size.{ending}"
    size_calc(config, "--memory", "8GiB", "--plot", path)
    assert path.read_bytes()[:4] in (b"<svg", b"\x89PNG")


BAD = [
    ("", 2, "Neither a MODEL nor --layers"),
    ("--layers 0", 2, "0 is out of range"),
    ("--layers -3", 2, "-3 is out of range"),
    ("--layers 1000000000", 2, "1000000000 is out of range"),
    ("--layers 1.0", 2, "'1.0' is not a whole number"),
    ("--layers 32 --heads 0", 2, "0 is out of range"),
    ("--layers 32 --kv-heads 5", 2, "--kv-heads 5 does not divide --heads 32"),
    ("--layers 32 --hidden-size 100 --heads 32", 2, "does not divide --hidden-size 100"),
    ("--kv-heads 8", 2, "--kv-heads need --layers"),
    ("--layers 32 --tokens 0", 2, "0 is out of range"),
    ("--layers 32 --tokens abc", 2, "'abc' is not a whole number"),
    ("--layers 32 --kv-dtype int5", 2, "Unknown KV dtype 'int5'"),
    ("--layers 32 --memory 5XB", 2, "'5XB' is not a size"),
    ("--layers 32 --memory 1GiB --gpu h100", 2, "exclude each other"),
    ("--layers 32 --gpu h100", 2, "needs the size of the weights"),
    ("--layers 32 --utilization 1.5", 2, "1.5 is out of range"),
    ("--layers 32 --tp 3", 2, "--tp 3 does not divide 32 attention heads"),
    ("--layers 32 --prefix-share 5000", 2, "part of --tokens 4096"),
    ("--layers 32 --sliding-layers 3", 2, "needs --sliding-window"),
    ("--layers 3 --sliding-window 9 --sliding-layers 4", 2, "more than --layers 3"),
    ("--layers 32 --plot size.pdf", 2, "must end in .svg or .png"),
    ("--layers 32 --gpu h101", 2, "Unknown GPU 'h101'"),
    ("--layers 32 --tokens 4096 --max-model-len 10", 2, "must fit into --max-model-len 10"),
    ("--layers 32 --rope-head-dim 64", 2, "--rope-head-dim needs --kv-lora-rank"),
    ("/dev/null", 3, "/dev/null is not JSON"),
    ("a" * 5000, 3, "File name too long"),
    ("DEEP", 3, "nested too deeply"),
    ("LATIN", 3, "is not UTF-8"),
    ("CONFIG --layers 32", 2, "MODEL and --layers exclude each other"),
    ("missing.json", 3, "missing.json does not exist"),
    ("EMPTY", 3, "has no config.json"),
    ("BROKEN", 3, "is not JSON"),
    ("LIST", 3, "is not a JSON object"),
]


@pytest.mark.report("S56")
@pytest.mark.parametrize(("args", "code", "says"), BAD)
def test_bad_input(
    kvtool: Run, config: Path, tmp_path: Path, args: str, code: int, says: str
) -> None:
    files = {"CONFIG": config, "EMPTY": tmp_path / "empty"}
    files |= {"BROKEN": tmp_path / "broken.json", "LIST": tmp_path / "list.json"}
    files |= {"DEEP": tmp_path / "deep.json", "LATIN": tmp_path / "latin.json"}
    files["DEEP"].write_text("[" * 100_000)
    files["LATIN"].write_bytes(b"\xff")
    files["EMPTY"].mkdir()
    files["BROKEN"].write_text("{")
    files["LIST"].write_text("[1]")
    result = kvtool("size-calc", *(files.get(arg, arg) for arg in args.split()))
    assert (result.code, result.out) == (code, "")
    assert says in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("stdin", "says"), [(b"\xff", "not UTF-8"), (b"[" * 100_000, "nested too deeply")]
)
def test_bad_stdin(kvtool: Run, stdin: bytes, says: str) -> None:
    result = kvtool("size-calc", "-", stdin=stdin)
    assert result.code == 3 and says in result.err


def test_a_config_from_a_pipe(size_calc: Any, config: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, config.read_bytes())
    os.close(writer)
    assert size_calc(f"/dev/fd/{reader}")["bytes"] == size_calc(config)["bytes"]
    os.close(reader)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_help_page_run(kvtool: Run, example: str) -> None:
    assert kvtool(*example.split()[1:]).code == 0


def _documented() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "size-calc.md").read_text()
    return re.findall(r"```console\n\$ (.*)\n([\s\S]*?)```", text)


@pytest.mark.parametrize(("command", "output"), _documented())
def test_documented_output_is_the_output(kvtool: Run, command: str, output: str) -> None:
    piped = re.fullmatch(r"echo '(.*)' \| (.*)", command)
    stdin, line = (piped[1].encode(), piped[2]) if piped else (b"", command)
    assert kvtool(*shlex.split(line)[1:], stdin=stdin).out == output


def test_nothing_heavy_is_imported(config: Path) -> None:
    code = (
        "import sys; from kvtool.cli.app import run; "
        f"assert run(['size-calc', {str(config)!r}, '--memory', '1GiB', '--format', 'json']) == 0; "
        "heavy = {'torch', 'transformers', 'triton', 'numpy', 'huggingface_hub', 'gguf', "
        "'pydantic'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
