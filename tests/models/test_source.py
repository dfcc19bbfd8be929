"""What a model name resolves to, and what is said when it resolves to nothing usable."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub import errors as hub_errors
from model_files import save_folder, tiny_model
from safetensors.torch import load_file, save_file

from kvtool.errors import ConfigError, ModelError
from kvtool.models import hub
from kvtool.models.load import load_model
from kvtool.models.source import resolve

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT = Path(__file__).parent.parent.parent
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    return save_folder(tmp_path / "tiny")


@pytest.fixture
def sharded(tmp_path):
    folder = save_folder(tmp_path / "sharded", max_shard_size="40KB")
    assert len(list(folder.glob("model-*.safetensors"))) >= 3
    return folder


def hub_cache(tmp_path: Path, folder: Path) -> Path:
    """A hub cache as a download leaves it: the snapshot links to files named by their hash."""
    repo = tmp_path / "hub" / "models--org--tiny"
    commit = "0123456789abcdef0123456789abcdef01234567"
    for sub in ("blobs", "refs", f"snapshots/{commit}"):
        (repo / sub).mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    for file in folder.iterdir():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        name = digest if file.suffix == ".safetensors" else digest[:40]
        (repo / "blobs" / name).write_bytes(file.read_bytes())
        (repo / "snapshots" / commit / file.name).symlink_to(f"../../blobs/{name}")
    return tmp_path / "hub"


def refusal(name, **options) -> ModelError:
    with pytest.raises(ModelError) as caught:
        resolve(str(name), **options)
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 3
    return caught.value


def test_folder(folder):
    source = resolve(str(folder))
    assert source.path == folder
    assert source.config["model_type"] == "llama"
    assert source.checkpoint.files == (folder / "model.safetensors",)


def test_sharded_folder_loads_like_the_single_file(folder, sharded):
    ids = torch.arange(9)[None]
    one, many = (load_model(str(f), device="cpu", dtype="float32") for f in (folder, sharded))
    assert torch.equal(one.model(ids).logits, many.model(ids).logits)


@pytest.mark.parametrize("name", ["./none", "/no/such/dir", "~/none", "none.gguf", "a/b/c", "a b"])
def test_no_such_path(name):
    error = refusal(name)
    assert error.message == f"No model at {name!r}: no such file or folder."
    assert "hub id" in (error.hint or "")


def test_revision_of_a_folder(folder):
    with pytest.raises(ConfigError, match="--revision v2 needs a hub id"):
        resolve(str(folder), revision="v2")


def test_another_kind_of_file(tmp_path):
    path = tmp_path / "weights.bin"
    path.touch()
    assert "not a .gguf file" in refusal(path).message


def test_folder_without_config(tmp_path):
    assert "has no config.json" in refusal(tmp_path).message


def test_folder_without_weights(folder):
    (folder / "model.safetensors").unlink()
    assert "has no weights" in refusal(folder).message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth"])
def test_pickled_weights_are_refused_by_name(name, folder):
    (folder / "model.safetensors").rename(folder / name)
    error = refusal(folder)
    assert f"holds only pickled weights ({name})" in error.message
    assert "save_pretrained" in (error.hint or "")


@pytest.mark.report("S84")
def test_missing_shard(sharded):
    victim = sorted(sharded.glob("model-*.safetensors"))[1]
    victim.unlink()
    error = refusal(sharded)
    assert victim.name in error.message
    assert "lacks 1 of the" in error.message


@pytest.mark.report("S84")
@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_shard(keep, sharded):
    victim = sorted(sharded.glob("model-*.safetensors"))[1]
    victim.write_bytes(victim.read_bytes()[:keep])
    error = refusal(sharded)
    assert f"{victim} is damaged" in error.message


def test_not_safetensors(folder):
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 9) + b"not json!")
    assert "does not begin with a safetensors header" in refusal(folder).message


def test_bytes_behind_the_data(folder):
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0" * 8)
    assert "is damaged" in refusal(folder).message


@pytest.mark.parametrize("content", ["[" * 100_000, '{"x":' * 101 + "1" + "}" * 101])
def test_config_nested_without_end(content, folder):
    (folder / "config.json").write_text(content)
    assert "config.json is nested more than 100 deep" in refusal(folder).message


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 1}', "[" * 100_000])
def test_broken_index(content, sharded):
    (sharded / INDEX).write_text(content)
    assert "is not a weight index" in refusal(sharded).message


def test_an_index_cannot_lead_out_of_the_folder(sharded):
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["model.norm.weight"] = "../elsewhere.safetensors"
    (sharded / INDEX).write_text(json.dumps(index))
    (sharded.parent / "elsewhere.safetensors").touch()
    assert "that its index names: elsewhere.safetensors" in refusal(sharded).message


def test_index_of_another_version(sharded):
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["model.layers.7.mlp.up_proj.weight"] = index["weight_map"][
        "model.norm.weight"
    ]
    (sharded / INDEX).write_text(json.dumps(index))
    assert "first model.layers.7.mlp.up_proj.weight" in refusal(sharded).message


@pytest.mark.report("S85")
def test_stray_files_do_not_override_the_index(sharded, caplog):
    expected = load_model(str(sharded), device="cpu", dtype="float32").model.state_dict()
    assert not caplog.records
    torch.manual_seed(1)
    other = {name: torch.randn_like(tensor) for name, tensor in expected.items()}
    save_file(other, sharded / "model.safetensors", metadata={"format": "pt"})
    save_file({"model.norm.weight": torch.zeros(32)}, sharded / "model-00009.safetensors")
    loaded = load_model(str(sharded), device="cpu", dtype="float32").model.state_dict()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)
    assert "are ignored: model-00009.safetensors, model.safetensors" in caplog.text


@pytest.mark.report("S85")
def test_unindexed_tensors_inside_a_shard_are_not_loaded(sharded):
    expected = load_model(str(sharded), device="cpu", dtype="float32").model.state_dict()
    index = json.loads((sharded / INDEX).read_text())["weight_map"]
    shard = next(f for f in set(index.values()) if f != index["model.norm.weight"])
    tensors = load_file(sharded / shard) | {"model.norm.weight": torch.zeros(32)}
    save_file(tensors, sharded / shard, metadata={"format": "pt"})
    loaded = load_model(str(sharded), device="cpu", dtype="float32").model.state_dict()
    assert torch.equal(loaded["model.norm.weight"], expected["model.norm.weight"])


def test_hub_id_from_a_local_cache_without_network_and_without_torch(tmp_path, folder):
    cache = hub_cache(tmp_path, folder)
    script = (
        "import sys; from kvtool.models.source import resolve; s = resolve('org/tiny');"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules;"
        "print(s.name, s.path.name, s.weights_digest)"
    )
    env = os.environ | {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, "-c", script], env=env, text=True, capture_output=True)
    assert out.returncode == 0, out.stderr
    name, commit, digest = out.stdout.split()
    assert (name, commit) == ("org/tiny", "0123456789abcdef0123456789abcdef01234567")
    assert digest == resolve(str(folder)).weights_digest  # same content, same identity


def test_hub_id_loads_and_its_revision_is_checked(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub_cache(tmp_path, folder)))
    ids = torch.arange(9)[None]
    loaded = load_model("org/tiny", revision="main", device="cpu", dtype="float32")
    assert torch.equal(loaded.model(ids).logits, tiny_model()(ids).logits)
    assert loaded.tokenizer.has_chat_template
    assert "Unknown model 'org/tiny'" in refusal("org/tiny", revision="v9").message


def test_an_interrupted_download_is_noticed(tmp_path, sharded, monkeypatch):
    cache = hub_cache(tmp_path, sharded)
    next(cache.glob("models--org--tiny/snapshots/*/model-00002*")).unlink()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    assert "model-00002" in refusal("org/tiny").message


def test_unknown_hub_id(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    error = refusal("nobody/nothing")
    assert "Unknown model 'nobody/nothing'" in error.message
    assert "hub cannot be reached" in error.message


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (hub_errors.RepositoryNotFoundError, "Unknown model 'org/tiny': there is no such folder"),
        (hub_errors.RevisionNotFoundError, "has no revision 'v2'"),
        (hub_errors.GatedRepoError, "is gated"),
        (OSError, "cannot be downloaded: No space left"),
    ],
)
def test_what_the_hub_answers(error, expected, monkeypatch):
    import huggingface_hub

    def refuse(*args, **options):
        raised = error.__new__(error)
        raised.args = ("No space left\nand more",)
        raise raised

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(ModelError, match=expected):
        hub.snapshot("org/tiny", "v2")


def test_an_unreadable_place_is_one_line(tmp_path, folder, monkeypatch):
    def denied(*args):
        raise PermissionError(13, "Permission denied", str(folder / "config.json"))

    monkeypatch.setattr(Path, "read_text", denied)
    assert "cannot be read or stored: Permission denied" in refusal(folder).message
