"""What a run finds out about its model before it moves text."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from gate.gate_record import NAMESPACE, config, record
from tokenizers.processors import TemplateProcessing

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError, ModelError
from kvtool.gate.records import write_record
from kvtool.gate.subject import subject_of
from kvtool.models.hf import PagedModel
from kvtool.models.tokenizer import Tokenizer
from kvtool.runtime.moving import ModelFacts, prepare_moving


def tokenizer(adds_bos: bool = False) -> Tokenizer:
    backend = copy.deepcopy(tiny.tokenizer())
    if adds_bos:
        backend.backend_tokenizer.post_processor = TemplateProcessing(
            single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
        )
    return Tokenizer(backend, "digest")


def prepared(name: str, *, adds_bos: bool = False, **options: Any) -> ModelFacts:
    model = PagedModel(tiny.build(name))
    return prepare_moving(config(**options), model, tokenizer(adds_bos), NAMESPACE)


def test_nothing_is_asked_where_nothing_is_moved(cache_folder: Path) -> None:
    model = PagedModel(tiny.build("gpt2"))
    assert prepare_moving(EngineConfig(), model, tokenizer(), NAMESPACE) == ModelFacts(None, 1)
    assert model.layout is None
    assert not cache_folder.exists()


def test_facts_of_the_model() -> None:
    assert prepared("llama", ungated=True) == ModelFacts(None, 1)
    assert prepared("llama", ungated=True, adds_bos=True) == ModelFacts(1, 1)
    assert prepared("llama4_text", ungated=True) == ModelFacts(None, tiny.WINDOW)


def test_the_gate(cache_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no record of the gate"):
        prepared("llama")
    write_record(cache_folder, record())
    assert prepared("llama") == prepared("llama", no_cache_dir=True) == ModelFacts(None, 1)
    with pytest.raises(ConfigError, match="has no record of the gate"):
        prepared("llama", cache_dir=str(tmp_path / "other"))
    other = replace(NAMESPACE, compute_dtype="bfloat16")
    model = PagedModel(tiny.build("llama"))
    with pytest.raises(ConfigError, match="for bfloat16"):
        prepare_moving(config(), model, tokenizer(), other)
    assert subject_of(other, config()).key != subject_of(NAMESPACE, config()).key


def test_what_a_model_cannot_do_is_said_before_the_gate() -> None:
    with pytest.raises(ModelError, match="cannot use cached text at other positions"):
        prepared("gpt2")
    one_layer = PagedModel(tiny.build("llama", num_hidden_layers=1))
    selecting = config(repair="vdev:0.15", ungated=True)
    with pytest.raises(ModelError, match="cannot choose tokens by repair vdev"):
        prepare_moving(selecting, one_layer, tokenizer(), NAMESPACE)
