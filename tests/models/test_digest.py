"""Identity of weights, settings and tokenizer; what is hashed again and what is not."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
import torch
from model_files import save_folder
from safetensors.torch import load_file, save_file

from kvtool.models import digest
from kvtool.models.digest import config_digest, file_digest, models_dir, tokenizer_digest
from kvtool.models.source import resolve

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def hashed(monkeypatch):
    """Paths whose bytes were read."""
    paths = []

    def counting(path, original=digest._hash):
        paths.append(path.name)
        return original(path)

    monkeypatch.setattr(digest, "_hash", counting)
    return paths


@pytest.mark.report("S07")
@pytest.mark.report("S49")
def test_one_changed_tensor_is_another_model(tmp_path):
    folder = save_folder(tmp_path / "m")
    before = resolve(str(folder)).weights_digest
    path = folder / "model.safetensors"
    stat = path.stat()
    tensors = load_file(path)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].clone()
    tensors["model.norm.weight"][3] += 1e-3
    save_file(tensors, tmp_path / "new", metadata={"format": "pt"})
    with path.open("r+b") as file:  # in place: same inode, same size
        file.write((tmp_path / "new").read_bytes())
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # and the old time put back
    assert path.stat().st_size == stat.st_size
    assert resolve(str(folder)).weights_digest != before


def test_same_weights_elsewhere_are_the_same_model(tmp_path):
    one, two = save_folder(tmp_path / "one"), save_folder(tmp_path / "two")
    assert resolve(str(one)).weights_digest == resolve(str(two)).weights_digest


def test_a_file_is_read_once(tmp_path, hashed):
    path = tmp_path / "f"
    path.write_bytes(b"one")
    expected = hashlib.sha256(b"one").hexdigest()
    assert file_digest(path) == file_digest(path) == expected
    assert hashed == ["f"]
    path.write_bytes(b"two")
    assert file_digest(path) == hashlib.sha256(b"two").hexdigest()
    path.rename(tmp_path / "g")
    (tmp_path / "f").write_bytes(b"two")
    file_digest(path)
    assert hashed == ["f", "f", "f"]


def test_hub_blobs_are_not_read_at_all(tmp_path, hashed):
    name = hashlib.sha256(b"x").hexdigest()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / name).write_bytes(b"x")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / name)
    assert file_digest(tmp_path / "model.safetensors") == name
    (tmp_path / "blobs" / "etag").write_bytes(b"x")  # small files are named otherwise
    assert file_digest(tmp_path / "blobs" / "etag") == name
    assert hashed == ["etag"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"PATH": 1}', '{"PATH": [1, 2, 3, 4, 5]}'])
def test_a_damaged_memory_is_ignored(content, tmp_path, hashed):
    path = tmp_path / "f"
    path.write_bytes(b"one")
    models_dir().mkdir(parents=True)
    (models_dir() / "digests.json").write_text(content.replace("PATH", str(path)))
    assert file_digest(path) == file_digest(path) == hashlib.sha256(b"one").hexdigest()
    assert hashed == ["f"]


def test_files_that_are_gone_are_forgotten(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    file_digest(tmp_path / "a")
    (tmp_path / "a").unlink()
    file_digest(tmp_path / "b")
    remembered = json.loads((models_dir() / "digests.json").read_text())
    assert list(remembered) == [str(tmp_path / "b")]
    assert [p.name for p in models_dir().iterdir()] == ["digests.json"]


def test_no_place_to_remember(tmp_path, own_cache, hashed):
    own_cache.write_text("a file where the folder should be")
    (tmp_path / "f").write_bytes(b"one")
    assert file_digest(tmp_path / "f") == file_digest(tmp_path / "f")
    assert hashed == ["f", "f"]


def test_a_memory_that_cannot_be_replaced_leaves_nothing(tmp_path, monkeypatch):
    def denied(*args):
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "f").write_bytes(b"one")
    monkeypatch.setattr(os, "replace", denied)
    assert file_digest(tmp_path / "f") == hashlib.sha256(b"one").hexdigest()
    assert list(models_dir().iterdir()) == []


def test_large_files_are_announced(tmp_path, monkeypatch):
    monkeypatch.setattr(digest, "_hash", lambda path: "0" * 64)
    with (tmp_path / "f").open("wb") as file:
        file.truncate((1 << 30) + 1)
    (tmp_path / "g").write_bytes(b"x")
    lines: list[str] = []
    file_digest(tmp_path / "f", lines.append)
    file_digest(tmp_path / "g", lines.append)
    assert lines == ["Hashing f (once)"]


@pytest.mark.report("S49")
def test_config_digest_sees_what_matters():
    config = {
        "model_type": "llama",
        "rope_parameters": {"rope_type": "default"},
        "dtype": "float32",
    }
    same = [
        {**config, "dtype": "bfloat16", "transformers_version": "9", "_name_or_path": "x"},
        dict(reversed(config.items())),
    ]
    other = [
        {**config, "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        {**config, "rope_scaling": {"type": "yarn"}},
        {**config, "sliding_window": 4096},
    ]
    assert {config_digest(c) for c in same} == {config_digest(config)}
    assert len({config_digest(c) for c in [config, *other]}) == 4


def test_tokenizer_digest(tmp_path):
    folder = save_folder(tmp_path / "m")
    before = tokenizer_digest(folder)
    (folder / "chat_template.jinja").write_text("another")
    assert tokenizer_digest(folder) == before  # it changes the text, not the ids of a text
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"add_bos_token": True}))
    with_bos = tokenizer_digest(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "NFC"}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert len({before, with_bos, tokenizer_digest(folder)}) == 3


def test_weights_digest_is_that_of_the_bytes(tmp_path):
    folder = save_folder(tmp_path / "m")
    save_file({"x": torch.zeros(2)}, folder / "stray.safetensors")
    files = [hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()]
    assert resolve(str(folder)).weights_digest == digest.combine(f.encode() for f in files)
