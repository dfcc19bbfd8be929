"""Headers of safetensors files that contradict themselves or the data behind them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from kvtool.errors import ModelError
from kvtool.models.checkpoint import open_checkpoint


def refused(folder: Path, content: bytes) -> str:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        open_checkpoint(folder)
    assert "\n" not in caught.value.message
    return caught.value.message


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ([ONE | {"dtype": "F64"}, TWO], "its header describes 't0' as"),
        ([ONE | {"dtype": "X9"}, TWO], "its header describes 't0' as"),
        ([ONE | {"dtype": []}, TWO], "its header describes 't0' as"),
        ([ONE | {"shape": [3]}, TWO], "its header describes 't0' as"),
        ([ONE | {"shape": [-2]}, TWO], "its header describes 't0' as"),
        ([ONE | {"shape": 2}, TWO], "its header describes 't0' as"),
        ([ONE | {"shape": [2.0]}, TWO], "its header describes 't0' as"),
        ([ONE | {"data_offsets": [0]}, TWO], "its header describes 't0' as"),
        ([ONE | {"data_offsets": [8, 0]}, TWO], "its header describes 't0' as"),
        ([ONE | {"data_offsets": None}, TWO], "its header describes 't0' as"),
        ([ONE, 7], "its header describes 't1' as 7"),
        ([ONE, ONE, TWO], "the data of 't1' begin at 0, expected 8"),
        ([ONE, TWO | {"data_offsets": [12, 20]}], "the data of 't1' begin at 12, expected 8"),
        ([ONE, TWO | {"data_offsets": [4, 12]}], "the data of 't1' begin at 4, expected 8"),
        ([ONE], "it has "),
    ],
)
def test_a_header_that_contradicts_itself(tensors, reason, tmp_path):
    header = json.dumps({f"t{i}": tensor for i, tensor in enumerate(tensors)}).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(16)
    message = refused(tmp_path, content)
    assert f"model.safetensors is damaged: {reason}" in message
    assert len(message) < 600


@pytest.mark.parametrize("header", [b"[" * 100_000, b"5", b"[1]", b'{"t": {}}', b"\xff"])
def test_a_header_of_another_kind(header, tmp_path):
    content = struct.pack("<Q", len(header)) + header
    assert "model.safetensors is damaged" in refused(tmp_path, content)


def test_a_header_that_agrees(tmp_path):
    """In any order, and with a tensor of no elements."""
    none = {"dtype": "BF16", "shape": [0, 4], "data_offsets": [8, 8]}
    header = json.dumps({"b": TWO, "none": none, "a": ONE, "__metadata__": {"x": "y"}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.shapes == {"a": (2,), "b": (2,), "none": (0, 4)}
    assert checkpoint.files == (path,)
