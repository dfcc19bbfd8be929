"""KV to Transformers and back: the code of docs/hf-cache.md, and identical greedy tokens."""

from __future__ import annotations

import json
import stat
from contextlib import closing
from pathlib import Path

import pytest
import torch
from hf_workplace import (
    BLOCK_SIZE,
    NUM_PREFIX,
    NUM_PROMPT,
    Workplace,
    damage,
    load_hf_cache,
    metadata_of,
    save_hf_cache,
)
from safetensors.torch import load_file
from transformers import PreTrainedModel

from kvtool.errors import CacheError, ConfigError
from kvtool.models import hf_import
from kvtool.models.hf_cache import FORMAT, export_prefix
from kvtool.models.hf_import import import_prefix

pytestmark = pytest.mark.usefixtures("own_cache")

FAMILIES = (
    "llama",
    "qwen3",
    "qwen2/sliding",
    "gemma3_text",
    "deepseek_v2",
    "deepseek_v3",
    "minicpm3",
    "gpt_oss",
    "gpt2",
)


@pytest.mark.parametrize("name", FAMILIES)
def test_transformers_goes_on_from_our_kv(name: str, tmp_path: Path) -> None:
    work, out = Workplace.of(name, tmp_path), tmp_path / "prefix.safetensors"
    work.run(work.prompt[:NUM_PREFIX], 1)
    with closing(work.catalog()) as catalog:
        report = export_prefix(catalog, work.last_run(catalog), out)
    num_layers = work.model.config.num_hidden_layers
    assert (report.num_tokens, report.num_layers) == (NUM_PREFIX, num_layers)
    assert report.num_bytes == out.stat().st_size
    tokens, cache = load_hf_cache(out, work.model.config)
    assert torch.equal(tokens, work.prompt[:NUM_PREFIX])
    assert cache.get_seq_length() == NUM_PREFIX
    with computed_tokens(work.model) as lengths:
        reply = work.generate(cache=cache)
    assert lengths[0] == NUM_PROMPT - NUM_PREFIX
    assert reply == work.generate()
    save_hf_cache(tmp_path / "theirs.safetensors", work.model, work.prompt[:NUM_PREFIX])
    ours, theirs = load_file(out), load_file(tmp_path / "theirs.safetensors")
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], atol=2e-5, rtol=1e-4)


class computed_tokens:
    """Notes how many tokens each forward of a model is given."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.lengths: list[int] = []
        self._hook = model.get_input_embeddings().register_forward_pre_hook(
            lambda module, given: self.lengths.append(given[0].shape[-1])
        )

    def __enter__(self) -> list[int]:
        return self.lengths

    def __exit__(self, *reason: object) -> None:
        self._hook.remove()


@pytest.mark.parametrize("name", FAMILIES)
def test_kvtool_goes_on_from_their_kv(name: str, tmp_path: Path) -> None:
    work, path = Workplace.of(name, tmp_path), tmp_path / "prefix.safetensors"
    save_hf_cache(path, work.model, work.prompt[:NUM_PREFIX])
    with closing(work.catalog()) as catalog:
        report = import_prefix(path, work.identity(), catalog)
        entries = catalog.entries()
        assert {entry.provenance for entry in entries} == {"import"}
        assert [catalog.find(key).num_tokens for key in report.keys] == [NUM_PREFIX]
    assert report.num_tokens == NUM_PREFIX
    ran = work.run(work.prompt)
    assert ran.output_ids == work.generate()
    assert ran.cached_tokens == NUM_PREFIX
    assert ran.by_tier == {"disk": NUM_PREFIX}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_there_and_back_is_the_same_bytes(dtype: str, llama: Workplace, tmp_path: Path) -> None:
    out, again = tmp_path / "out.safetensors", tmp_path / "again.safetensors"
    llama.run(llama.prompt[:NUM_PREFIX], 1, dtype=dtype)
    with closing(llama.catalog()) as catalog:
        export_prefix(catalog, llama.last_run(catalog), out)
    other = llama._replace(kv=tmp_path / "other")
    with closing(other.catalog()) as catalog:
        report = import_prefix(out, other.identity(dtype=dtype), catalog)
        assert report.notes == ()
        export_prefix(catalog, other.last_run(catalog), again)
    assert again.read_bytes() == out.read_bytes()
    assert load_file(out)["layers.0.key"].dtype == getattr(torch, dtype)
    assert other.run(llama.prompt, dtype=dtype).cached_tokens == NUM_PREFIX


def test_metadata(llama: Workplace, kvtool_file: Path) -> None:
    about = metadata_of(kvtool_file)
    assert about["format"] == FORMAT
    assert (about["home"], about["num_tokens"]) == ("0", str(NUM_PREFIX))
    assert about["architecture"] == "LlamaForCausalLM"
    assert about["exact"] == "true"
    stated = json.loads(about["namespace"])
    assert stated == llama.identity().namespace.described()
    assert stat.S_IMODE(kvtool_file.stat().st_mode) == 0o600


def test_a_salt_stays_secret(llama: Workplace, kvtool_file: Path, tmp_path: Path) -> None:
    other = llama._replace(kv=tmp_path / "other")
    with closing(other.catalog()) as catalog:
        import_prefix(kvtool_file, llama.identity(salt="my secret"), catalog)
        export_prefix(catalog, other.last_run(catalog), tmp_path / "salted.safetensors")
    assert json.loads(metadata_of(tmp_path / "salted.safetensors")["namespace"])["salt"] == "set"
    assert b"my secret" not in (tmp_path / "salted.safetensors").read_bytes()
    assert other.run(llama.prompt).cached_tokens == 0


@pytest.mark.parametrize("num_tokens", [1, BLOCK_SIZE, 21, NUM_PREFIX])
def test_a_cut_prefix_of_several_runs(
    num_tokens: int, llama: Workplace, foreign_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(hf_import, "RUN_BLOCKS", 2)
    with closing(llama.catalog()) as catalog:
        report = import_prefix(foreign_file, llama.identity(), catalog)
        assert [catalog.find(key).home for key in report.keys] == [0, 8, 16, 24, 32]
        last = catalog.find(report.keys[-1])
        exported = export_prefix(catalog, last, tmp_path / "cut", num_tokens=num_tokens)
    assert exported.num_tokens == num_tokens
    whole, cut = load_file(foreign_file), load_file(tmp_path / "cut")
    assert torch.equal(cut["tokens"], whole["tokens"][:num_tokens])
    for name in whole.keys() - {"tokens"}:
        assert torch.equal(cut[name], whole[name][:, :, :num_tokens])
    assert llama.run(llama.prompt).output_ids == llama.generate()


def test_a_branch_uses_only_a_part_of_the_run_in_front(llama: Workplace, tmp_path: Path) -> None:
    branch = torch.cat((llama.prompt[:20], llama.prompt[:16] + 1))
    for number, tokens in enumerate((llama.prompt, branch)):
        save_hf_cache(tmp_path / f"{number}", llama.model, tokens)
        with closing(llama.catalog()) as catalog:
            report = import_prefix(tmp_path / f"{number}", llama.identity(), catalog)
    with closing(llama.catalog()) as catalog:
        last = max(map(catalog.find, report.keys), key=lambda entry: entry.home)
        assert last.home == 20
        export_prefix(catalog, last, tmp_path / "out")
    ours, theirs = load_file(tmp_path / "out"), load_file(tmp_path / "1")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_export_of_what_is_not_there(
    llama: Workplace, foreign_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hf_import, "RUN_BLOCKS", 4)
    out = tmp_path / "out"
    with closing(llama.catalog()) as catalog:
        report = import_prefix(foreign_file, llama.identity(), catalog)
        last = catalog.find(report.keys[-1])
        with pytest.raises(ConfigError, match=r"35 tokens cannot be exported; run .* has 34"):
            export_prefix(catalog, last, out, num_tokens=NUM_PREFIX + 1)
        damage(llama.kv, report.keys[1])
        with pytest.raises(CacheError, match=f"Run {report.keys[1]:.12} cannot be exported"):
            export_prefix(catalog, last, out)
        catalog.remove(report.keys[:1])
        with pytest.raises(CacheError, match="up to position 16 are not stored"):
            export_prefix(catalog, last, out)
    assert sorted(tmp_path.glob("*out*")) == sorted(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("content", [b"notes of mine", None, "foreign"])
def test_export_never_replaces_another_file(
    content: bytes | str | None, llama: Workplace, kvtool_file: Path, foreign_file: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    out = foreign_file if content == "foreign" else tmp_path / "mine"
    if content is None:
        out.mkdir()
    elif isinstance(content, bytes):
        out.write_bytes(content)
    before = None if content is None else out.read_bytes()
    with closing(llama.catalog()) as catalog:
        with pytest.raises(ConfigError, match=r"is no earlier export|is not a file"):
            export_prefix(catalog, llama.last_run(catalog), out)
        with pytest.raises(ConfigError, match="cannot be written: No such file"):
            export_prefix(catalog, llama.last_run(catalog), tmp_path / "missing" / "out")
        expected = kvtool_file.read_bytes()
        for replaceable in (kvtool_file, tmp_path / "empty"):
            replaceable.touch()
            export_prefix(catalog, llama.last_run(catalog), replaceable)
            assert replaceable.read_bytes() == expected
    assert before is None or out.read_bytes() == before
