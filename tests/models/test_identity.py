"""The namespace without weights is the one that a run keeps its KV under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from model_files import tiny_model, write_gguf
from transformers import AutoConfig

from kvtool.cache.namespace import Namespace
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError, ModelError
from kvtool.models.config_groups import groups_of_config
from kvtool.models.hf import PagedModel
from kvtool.models.identity import model_identity
from kvtool.runtime.runtime import Runtime

pytestmark = pytest.mark.usefixtures("own_cache")

FAMILIES = (
    "llama",
    "llama/dynamic",
    "llama/longrope",
    "llama/llama3",
    "mistral",
    "mixtral",
    "qwen2/sliding",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2/softcap",
    "gemma3_text",
    "gemma3_text/linear",
    "gpt_neox",
    "gptj",
    "gpt2",
    "opt",
    "phi3/longrope",
    "glm4_moe",
    "cohere2",
    "olmo2",
    "deepseek_v2",
    "deepseek_v3",
    "minicpm3",
    "gpt_oss",
    "llama4_text",
)
# Their masks are made of numbers that only a loaded model has.
UNTRACEABLE = ("llama4_text",)


def namespace_of_run(model: str, **options: Any) -> Namespace:
    runtime = Runtime.open(
        EngineConfig(model=model, device="cpu", kv_blocks=8, no_cache_dir=True, **options)
    )
    runtime.close()
    return runtime.base_namespace


@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_has_the_same_namespace(name: str, tmp_path: Path) -> None:
    folder = str(tiny.folder(tmp_path, name))
    identity = model_identity(folder, device="cpu", dtype="float32")
    assert identity.namespace == namespace_of_run(folder, dtype="float32")
    assert identity.architecture == type(tiny.build(name)).__name__
    assert identity.vocab_size == len(tiny.tokenizer())


@pytest.mark.parametrize("dtype", ["auto", "bf16", "float16"])
def test_options_are_part_of_it(dtype: str, tmp_path: Path) -> None:
    folder = str(tiny.folder(tmp_path))
    options: dict[str, Any] = {"dtype": dtype, "block_size": 8, "deterministic": True}
    identity = model_identity(folder, device="cpu", **options)
    assert identity.namespace == namespace_of_run(folder, **options)
    assert identity.namespace.implementation == f"torch {torch.__version__} on cpu"
    salted = model_identity(folder, device="cpu", **options, salt="mine")
    assert salted.namespace.salt == "mine"
    assert salted.namespace.digest != identity.namespace.digest


def test_gguf(tmp_path: Path) -> None:
    settings = {"rope.freq_base": 1e4, "attention.layer_norm_rms_epsilon": 1e-6}
    path = str(write_gguf(tmp_path / "model.gguf", tiny_model(), "llama", settings))
    assert model_identity(path, device="cpu").namespace == namespace_of_run(path)


def test_no_weights_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: object, **options: object) -> None:
        raise AssertionError("a model was made")

    folder = tiny.folder(tmp_path)
    monkeypatch.setattr("transformers.PreTrainedModel.from_pretrained", load)
    monkeypatch.setattr("transformers.PreTrainedModel.__init__", load)
    model_identity(str(folder), device="cpu")


def test_what_cannot_be_identified(tmp_path: Path) -> None:
    folder = str(tiny.folder(tmp_path))
    with pytest.raises(ConfigError, match="--dtype is 'int3'"):
        model_identity(folder, dtype="int3")
    with pytest.raises(ModelError, match=r"No model at '\./nowhere'"):
        model_identity("./nowhere")


@pytest.mark.parametrize("name", tiny.SUPPORTED)
def test_layer_groups_from_the_config_alone(name: str) -> None:
    model_type, settings = tiny.SUPPORTED[name]
    config = AutoConfig.for_model(model_type, **settings)
    if name in UNTRACEABLE:
        with pytest.raises(ModelError, match="cannot be told without its weights"):
            groups_of_config(config, torch.bfloat16)
        return
    groups = PagedModel(tiny.build(name, dtype=torch.bfloat16), check=False).groups
    assert groups_of_config(config, torch.bfloat16) == groups
    rope = tiny.build(name).config.to_dict().get("rope_parameters")
    assert config.to_dict().get("rope_parameters") == rope  # the caller's config is untouched


@pytest.mark.parametrize("name", ["bloom", "lfm2", "mimo_v2_flash", "gemma3"])
def test_groups_of_a_model_that_cannot_run(name: str) -> None:
    model_type, settings, reason = tiny.REFUSED[name]
    with pytest.raises(ModelError, match="cannot run on paged KV") as caught:
        groups_of_config(AutoConfig.for_model(model_type, **settings), torch.float32)
    assert reason.split()[0] in caught.value.message
