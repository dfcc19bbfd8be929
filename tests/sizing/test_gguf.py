"""GGUF metadata goes through the rules of the config it was made from."""

from __future__ import annotations

import contextlib
import functools
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFWriter
from hypothesis import given, settings
from hypothesis import strategies as st
from sizing.published import spec

from kvtool.errors import ModelError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.source import read_model

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(architecture: str, **own: Any) -> Path:
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, architecture)
        writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "déjà vu"] * 1000)
        writer.add_array("tokenizer.ggml.token_type", [1, 2, 3] * 1000)
        for name, value in own.items():
            key = f"{architecture}.{name.replace('__', '.')}"
            if isinstance(value, list):
                writer.add_array(key, value)
            else:
                writer.add_uint32(key, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path

    return make


def test_gqa(write: Write) -> None:
    path = write(
        "llama",
        block_count=30,
        context_length=8192,
        embedding_length=576,
        attention__head_count=9,
        attention__head_count_kv=3,
    )
    model = read_model(str(path))
    assert model.max_model_len == 8192
    assert model.weight_bytes == path.stat().st_size
    assert calculate(model, SizeRequest()).bytes == 4096 * 23040


def test_latents_ignore_the_decoys_and_the_draft_layer(write: Write) -> None:
    path = write(
        "deepseek2",
        block_count=62,
        nextn_predict_layers=1,
        embedding_length=7168,
        attention__head_count=128,
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
        attention__kv_lora_rank=512,
        rope__dimension_count=64,
    )
    assert read_model(str(path)).layers == spec("DeepSeek-V3").layers


def test_windows_by_rule_and_by_list(write: Write) -> None:
    own: dict[str, Any] = {
        "block_count": 26,
        "embedding_length": 1152,
        "attention__head_count": 4,
        "attention__head_count_kv": 1,
        "attention__key_length": 256,
        "attention__value_length": 256,
        "attention__sliding_window": 512,
    }
    by_rule = read_model(str(write("gemma3", **own)))
    assert by_rule.layers == spec("gemma-3-1b").layers
    flags = [(i + 1) % 6 != 0 for i in range(26)]
    by_list = read_model(str(write("gemma3", **own, attention__sliding_window_pattern=flags)))
    assert by_list.layers == by_rule.layers


def test_recurrent_layers_and_heads_by_layer(write: Write) -> None:
    next_ = write(
        "qwen3next",
        block_count=48,
        embedding_length=2048,
        attention__head_count=16,
        attention__head_count_kv=2,
        attention__key_length=256,
        attention__value_length=256,
        full_attention_interval=4,
        ssm__conv_kernel=4,
        ssm__state_size=128,
        ssm__group_count=16,
        ssm__time_step_rank=32,
        ssm__inner_size=4096,
    )
    assert read_model(str(next_)).layers == spec("Qwen3-Next").layers
    hybrid = write(
        "nemotron_h",
        block_count=4,
        embedding_length=1024,
        attention__head_count=16,
        attention__head_count_kv=[0, 4, 0, 8],
        attention__key_length=64,
        attention__value_length=64,
        ssm__conv_kernel=4,
        ssm__state_size=16,
        ssm__group_count=2,
        ssm__time_step_rank=8,
        ssm__inner_size=512,
    )
    report = calculate(read_model(str(hybrid)), SizeRequest(tokens=10))
    assert [row.num_kv_heads for row in report.per_layer] == [0, 4, 0, 8]
    assert report.bytes == 10 * 2 * (4 + 8) * 64 * 2
    assert report.state_bytes == 2 * (3 * (512 + 2 * 2 * 16) * 2 + 512 * 16 * 4)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_flipped_bytes_end_in_a_model_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        damaged = bytearray(_small())
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged)
        with contextlib.suppress(ModelError):
            calculate(read_model(str(path)), SizeRequest())


@functools.cache
def _small() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = GGUFWriter(path, "llama")
        for key, value in (("block_count", 3), ("embedding_length", 64), ("context_length", 128)):
            writer.add_uint32(f"llama.{key}", value)
        writer.add_uint32("llama.attention.head_count", 4)
        writer.add_array("llama.attention.head_count_kv", [2, 2, 0])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path.read_bytes()


def test_damaged_files_are_refused(write: Write, tmp_path: Path) -> None:
    whole = write("llama", block_count=2).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (4, 20, 60, len(whole) // 2):
        cut.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            read_model(str(cut))
    pair = struct.pack("<Q1sI", 1, b"k", 9)  # an array …
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair
    for rest in (struct.pack("<IQ", 9, 1) * 3000, struct.pack("<IQ", 10, 2**62)):
        cut.write_bytes(start + rest)  # … of arrays of arrays; of more numbers than memory has
        with pytest.raises(ModelError, match="damaged or cut short"):
            read_model(str(cut))
    cut.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(ModelError, match="not a GGUF"):
        read_model(str(cut))
    with pytest.raises(ModelError, match="no num_attention_heads"):
        read_model(str(write("llama", block_count=2)))
