"""Loading: every parameter accounted for, every file checked, every EOS known."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from model_files import save_folder, tiny_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from kvtool.errors import ConfigError, ModelError
from kvtool.models.device import resolve_device, resolve_dtype
from kvtool.models.eos import eos_ids
from kvtool.models.load import load_model

pytestmark = pytest.mark.usefixtures("own_cache")

IDS = torch.arange(12)[None] * 5


def edit_weights(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def load(folder, **options):
    return load_model(str(folder), **{"device": "cpu", "dtype": "float32"} | options)


def reference_logits(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    with torch.inference_mode():
        return model(IDS).logits


def logits(loaded):
    with torch.inference_mode():
        return loaded.model(IDS).logits


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dtype_and_mode(dtype, tmp_path):
    loaded = load(save_folder(tmp_path), dtype=dtype)
    assert {str(p.dtype) for p in loaded.model.parameters()} == {f"torch.{dtype}"}
    assert not loaded.model.training


def test_nothing_is_printed(tmp_path, capfd):
    load(save_folder(tmp_path))
    capfd.readouterr()
    load(tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.report("S86")
def test_tied_head_that_is_not_stored(tmp_path):
    model = tiny_model(tie_word_embeddings=True)
    loaded = load(save_folder(tmp_path, model))
    assert torch.equal(logits(loaded), reference_logits(tmp_path))
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight


@pytest.mark.report("S86")
def test_tied_head_that_is_stored_as_well(tmp_path, caplog):
    save_folder(tmp_path, tiny_model(tie_word_embeddings=True))
    edit_weights(
        tmp_path, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()})
    )
    assert torch.equal(logits(load(tmp_path)), reference_logits(tmp_path))
    assert not caplog.records


@pytest.mark.report("S86")
def test_tied_head_that_differs_follows_the_reference_and_warns(tmp_path, caplog):
    save_folder(tmp_path, tiny_model(tie_word_embeddings=True))
    edit_weights(tmp_path, lambda t: t.update({"lm_head.weight": torch.randn(320, 32)}))
    loaded = load(tmp_path)
    assert torch.equal(logits(loaded), reference_logits(tmp_path))
    assert "hold a different head" in caplog.text


@pytest.mark.report("S84")
def test_missing_parameters_are_named(tmp_path):
    save_folder(tmp_path)
    edit_weights(tmp_path, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ModelError, match=r"1 missing parameters.*layers\.1\.mlp\.up_proj\.weight"):
        load(tmp_path)


def test_unexpected_parameters_are_named(tmp_path):
    save_folder(tmp_path)
    edit_weights(tmp_path, lambda t: t.update({"model.layers.0.self_attn.sinks": torch.ones(4)}))
    with pytest.raises(ModelError, match=r"1 unexpected parameters.*self_attn\.sinks"):
        load(tmp_path)


def test_parameters_of_another_size_are_named(tmp_path):
    save_folder(tmp_path)
    edit_config(tmp_path, intermediate_size=64)
    with pytest.raises(ModelError, match=r"6 mismatched parameters, first model\.layers\.0\.mlp"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"hidden_size": 1_000_000},
            r"describes 1\.12e\+09 parameters, but the weights hold 3\.60e\+04",
        ),
        ({"head_dim": 1_000_000}, "describes .* parameters"),
        ({"intermediate_size": 10**9}, "describes .* parameters"),
        ({"vocab_size": 10**12}, "describes .* parameters"),
        ({"num_hidden_layers": 1_000_000}, "describes 1000000 layers, but the weights hold 21 t"),
        ({"hidden_size": 0}, "hidden_size is 0; it must be at least 1"),
        ({"max_position_embeddings": -1}, "max_position_embeddings is -1; it must be at least 1"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0; it must be at least 1"),
        ({"hidden_act": "nope"}, "config.json: hidden_act is 'nope'; allowed: .*silu"),
        ({"hidden_size": "x"}, "config.json is not usable: .*'hidden_size'.* got"),
    ],
)
def test_sizes_are_checked_before_anything_is_built(fields, message, tmp_path, monkeypatch, capfd):
    def build(*args, **options):
        raise AssertionError("a model was built")

    save_folder(tmp_path)
    edit_config(tmp_path, **fields)
    monkeypatch.setattr(PreTrainedModel, "from_pretrained", build)
    capfd.readouterr()
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path)
    assert "\n" not in caught.value.message
    assert "tokenizer" not in caught.value.message
    assert capfd.readouterr() == ("", "")


def test_nested_settings_without_end(tmp_path):
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        folder = save_folder(tmp_path / name)
        (folder / name).write_text('{"x":' + "[" * 100_000 + "]" * 100_000 + "}")
        with pytest.raises(ModelError) as caught:
            load(folder)
        assert "\n" not in caught.value.message


def test_a_text_config_of_the_wrong_type_names_no_eos(tmp_path):
    assert eos_ids(tmp_path, {"text_config": 5, "eos_token_id": 3}, None) == {3}


def test_weights_that_are_damaged_where_only_the_reader_sees_it(tmp_path):
    save_folder(tmp_path)
    path = tmp_path / "model.safetensors"
    content = path.read_bytes().replace(b'{"format":"pt"}', b'{"format":1234}')
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        load(tmp_path)


def test_unknown_model_type(tmp_path):
    save_folder(tmp_path)
    edit_config(tmp_path, model_type="no_such_type")
    with pytest.raises(ModelError, match="is not usable") as caught:
        load(tmp_path)
    assert "\n" not in caught.value.message


def test_not_a_language_model(tmp_path):
    save_folder(tmp_path)
    edit_config(tmp_path, model_type="vit")
    with pytest.raises(ModelError, match="'vit', which is not a causal language model"):
        load(tmp_path)


def test_remote_code_is_never_run(tmp_path):
    save_folder(tmp_path)
    (tmp_path / "configuration_evil.py").write_text("raise SystemExit('ran')")
    edit_config(
        tmp_path,
        model_type="evil",
        auto_map={"AutoConfig": "configuration_evil.EvilConfig"},
    )
    with pytest.raises(ModelError, match="is not usable"):
        load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"model_type": "llama", "hidden_size": "x"}'])
def test_broken_config(content, tmp_path):
    save_folder(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError) as caught:
        load(tmp_path)
    assert "\n" not in caught.value.message


@pytest.mark.report("S83")
@pytest.mark.parametrize(
    ("config", "generation", "tokenizer", "expected"),
    [
        (2, None, None, {2}),
        ([2, 5], None, None, {2, 5}),
        (None, None, 7, {7}),
        ("missing", None, 7, {7}),
        (2, {"eos_token_id": 9}, 7, {2, 7, 9}),
        ([2], {"eos_token_id": [9, 2]}, None, {2, 9}),
        (2, {"eos_token_id": None}, 2, {2}),
        (2, {}, None, {2}),
        ("missing", None, None, set()),
    ],
)
def test_eos_is_the_union_of_all_sources(config, generation, tokenizer, expected, tmp_path):
    fields = {} if config == "missing" else {"eos_token_id": config}
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert eos_ids(tmp_path, fields, tokenizer) == expected


@pytest.mark.report("S83")
def test_eos_of_a_loaded_model(tmp_path):
    save_folder(tmp_path)
    edit_config(tmp_path, eos_token_id=[0, 5])
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 9}')
    assert load(tmp_path).eos_ids == {0, 2, 5, 9}


def test_eos_that_is_no_id(tmp_path):
    with pytest.raises(ModelError, match="eos_token_id is '</s>'"):
        eos_ids(tmp_path, {"eos_token_id": "</s>"}, None)


def test_device_and_dtype_names(monkeypatch):
    cpu = torch.device("cpu")
    assert resolve_dtype("half", cpu) is torch.float16
    assert resolve_dtype("auto", torch.device("cuda")) is torch.bfloat16
    with pytest.raises(ConfigError, match="--dtype is 'int8'; allowed: auto, float32"):
        resolve_dtype("int8", cpu)
    with pytest.raises(ConfigError, match="--device is 'tpu'; allowed: auto, cpu, cuda"):
        resolve_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == cpu
    with pytest.raises(ConfigError, match="sees no CUDA device"):
        resolve_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("kvtool.models.device.find_spec", lambda name: None)
    for device in ("cuda", "auto"):
        with pytest.raises(ConfigError, match="triton, which the GPU kernels need"):
            resolve_device(device)


def test_transformers_keeps_its_own_verbosity(tmp_path):
    from transformers.utils import logging as theirs

    theirs.set_verbosity(logging.WARNING)
    load(save_folder(tmp_path))
    assert theirs.get_verbosity() == logging.WARNING
    assert theirs.is_progress_bar_enabled()
