"""A converted folder is what its manifest says, or it is converted again, and that is said."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import namedtuple

import pytest
import torch
from filelock import FileLock
from model_files import tiny_model, write_gguf

from kvtool.errors import ModelError
from kvtool.models import digest, gguf
from kvtool.models.digest import models_dir
from kvtool.models.gguf import converted
from kvtool.models.load import load_model
from kvtool.models.source import resolve

pytestmark = pytest.mark.usefixtures("own_cache")

RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


@pytest.fixture
def path(tmp_path):
    return write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS)


def truncate(file):
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_bit(file):
    """In place, and the old time put back."""
    stat = file.stat()
    with file.open("r+b") as out:
        out.seek(-3, os.SEEK_END)
        byte = out.read(1)[0]
        out.seek(-3, os.SEEK_END)
        out.write(bytes([byte ^ 1]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def make_folder(file):
    file.unlink()
    file.mkdir()


DAMAGE = {
    "deleted": lambda file: file.unlink(),
    "truncated": truncate,
    "empty": lambda file: file.write_bytes(b""),
    "flipped": flip_a_bit,
    "folder": make_folder,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_repaired(name, damage, path):
    before = resolve(str(path))
    good = {file.name: file.read_bytes() for file in before.path.iterdir()}
    assert good.keys() == {"kvtool.json", *FILES}
    DAMAGE[damage](before.path / name)
    lines: list[str] = []
    after = resolve(str(path), progress=lines.append)
    assert {file.name: file.read_bytes() for file in after.path.iterdir()} == good
    assert after.weights_digest == before.weights_digest
    (line,) = lines
    assert line.startswith(f"Converting m.gguf again to {before.path}: ") and name in line
    assert resolve(str(path), progress=lines.append) == after and len(lines) == 1


@pytest.mark.parametrize(
    "content",
    ["", "[]", "5", "{}", "[" * 100_000, '{"files": []}', '{"converter": 1, "files": {"a": 1}}'],
)
def test_a_damaged_manifest_is_repaired(content, path):
    folder = converted(path).path
    record = (folder / "kvtool.json").read_text()
    (folder / "kvtool.json").write_text(content)
    lines: list[str] = []
    assert converted(path, lines.append).path == folder
    assert (folder / "kvtool.json").read_text() == record
    assert len(lines) == 1 and "kvtool.json" in lines[0]


def test_a_folder_without_a_manifest_of_files_is_converted_again(path):
    folder = converted(path).path
    record = json.loads((folder / "kvtool.json").read_text())
    del record["files"]
    (folder / "kvtool.json").write_text(json.dumps(record))
    (folder / "chat_template.jinja").unlink()
    converted(path)
    assert (folder / "chat_template.jinja").exists()


def test_a_file_beside_those_of_the_conversion_is_removed(path):
    folder = converted(path).path
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    lines: list[str] = []
    converted(path, lines.append)
    assert not (folder / "model.safetensors.index.json").exists()
    assert "model.safetensors.index.json is not part of it" in lines[0]


def test_something_else_at_the_place_of_the_folder(path):
    folder = converted(path).path
    shutil.rmtree(folder)
    folder.write_text("a file")
    assert converted(path).path == folder
    assert (folder / "config.json").exists()


def test_no_file_is_read_again_at_the_next_start(path, monkeypatch):
    first = converted(path)

    def read(file):
        raise AssertionError(f"{file} was read")

    monkeypatch.setattr(digest, "_hash", read)
    assert converted(path) == first


def test_who_waits_for_a_conversion_is_told(path):
    models_dir().mkdir(parents=True)
    lock = FileLock(models_dir() / "conversion.lock")
    lock.acquire()
    lines: list[str] = []

    def progress(line):
        lines.append(line)
        if line.startswith("Waiting for another process"):
            lock.release()

    converted(path, progress)
    assert [line.split()[0] for line in lines] == ["Waiting", "Converting"]


def refused(path):
    with pytest.raises(ModelError) as caught:
        converted(path)
    assert "\n" not in caught.value.message
    assert not [p for p in models_dir().iterdir() if p.is_dir()]
    return caught.value


def test_a_disk_without_room_is_said_before_writing(path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10, 9, 1))
    error = refused(path)
    assert "m.gguf cannot be stored" in error.message
    assert "it needs 1 MiB, 1 MiB are free" in error.message
    assert "XDG_CACHE_HOME" in (error.hint or "")


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        Exception("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_is_said(failure, path, monkeypatch):
    def full(*args, **options):
        raise failure

    monkeypatch.setattr(gguf, "_write_json", full)
    error = refused(path)
    assert "m.gguf cannot be stored" in error.message
    assert "No space left on device" in error.message
    assert "XDG_CACHE_HOME" in (error.hint or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"tokenizer.ggml.merges", b"tokenizer.ggml.nerges"),
        (b"tokenizer.ggml.tokens", b"tokenizer.ggml.uokens"),
        (b"general.architecture", b"general.brchitecture"),
        (b"llama.block_count", b"llama.clock_count"),
        (b"llama.context_length", b"llama.dontext_length"),
        (b"token_embd.weight", b"token_embd.xeight"),
        (b"tokenizer.ggml.model\x08\0\0\0\x04\0\0\0\0\0\0\0gpt2", None),
        (b"<|im_start|>", b"<|im_start|\xff"),
        ("Ġthe".encode(), b"\xff\xff\xff\xff\xff"),
    ],
)
def test_damaged_metadata_is_refused(old, new, path):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new or old[:-1] + b"\xff", 1))
    refused(path)


@pytest.mark.parametrize(
    ("key", "bytes_"), [("llama.block_count", b"\xff" * 4), ("llama.embedding_length", b"\xff" * 4)]
)
def test_damaged_sizes_are_refused_before_anything_is_built(key, bytes_, path):
    content = bytearray(path.read_bytes())
    start = content.index(key.encode()) + len(key) + 4
    content[start : start + 4] = bytes_
    path.write_bytes(content)
    assert "is damaged: it states" in refused(path).message


def test_what_is_loaded_after_a_repair(path):
    ids = torch.arange(9)[None]
    before = load_model(str(path), device="cpu", dtype="float32")
    expected = before.model(ids).logits
    flip_a_bit(before.path / "model.safetensors")
    after = load_model(str(path), device="cpu", dtype="float32")
    assert torch.equal(after.model(ids).logits, expected)
