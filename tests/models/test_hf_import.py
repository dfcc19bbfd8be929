"""Files of KV that are refused, each with its reason, before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import tiny
import torch
from hf_workplace import (
    NUM_PREFIX,
    Tensors,
    Workplace,
    rewrite,
)
from safetensors.torch import save_file
from transformers import DynamicCache

from kvtool.errors import InputError
from kvtool.models.hf_import import import_prefix

pytestmark = pytest.mark.usefixtures("own_cache")


def nothing(tensors: Tensors) -> None:
    """Only the metadata changes."""


def poison(tensors: Tensors) -> None:
    tensors["layers.2.value"][0, 1, 3, 4] = float("nan")


def tokens_set(value: int) -> Callable[[Tensors], object]:
    return lambda tensors: tensors["tokens"].__setitem__(5, value)


def cut(tensors: Tensors) -> None:
    tensors["layers.1.key"] = tensors["layers.1.key"][:, :, 20:].contiguous()


def halved(tensors: Tensors) -> None:
    tensors.update({k: t.bfloat16() for k, t in tensors.items() if k != "tokens"})


def lengthened(tensors: Tensors) -> None:
    times = -(-(tiny.MAX_LEN + 1) // NUM_PREFIX)
    for name, tensor in tensors.items():
        tensors[name] = torch.cat([tensor] * times, dim=0 if name == "tokens" else 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("tokens"), "it has no tensor tokens"),
        (lambda t: t.pop("layers.3.key"), r"it lacks 'layers\.3\.key'"),
        (lambda t: t.update({"\x1b[2J" + "x" * 9999: torch.ones(1)}), r"not: '\\x1b\[2Jx{71}…"),
        (lambda t: t.update(extra=torch.ones(1)), "it has what the model has not: 'extra'"),
        (lambda t: t.update(tokens=t["tokens"].float()), r"tokens is float32 \[34\]"),
        (lambda t: t.update(tokens=t["tokens"][:0]), r"tokens is int32 \[0\]"),
        (
            lambda t: t.update(tokens=t["tokens"][:-1].clone()),
            r"layers\.0\.key is \[1, 2, 34, 16\]",
        ),
        (tokens_set(259), "the token id at index 5 is 259; allowed: 0 to 258"),
        (tokens_set(-1), "the token id at index 5 is -1"),
        (lengthened, "it has 272 tokens; the model's limit is 256"),
        (cut, r"layers\.1\.key is \[1, 2, 14, 16\]; it must be \[1, 2, 34, 16\]"),
        (halved, r"layers\.0\.key is BF16, but the model's KV is F32"),
        (poison, r"layers\.2\.value holds NaN or infinity, first at \[0, 1, 3, 4\]"),
    ],
)
def test_a_file_that_cannot_be_kv_of_the_model(
    change: Callable[[Tensors], object], message: str, llama: Workplace, foreign_file: Path
) -> None:
    rewrite(foreign_file, change)
    with closing(llama.catalog()) as catalog:
        with pytest.raises(InputError, match=message):
            import_prefix(foreign_file, llama.identity(), catalog)
        assert catalog.entries() == []


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "other 2"}, "its format is 'other 2'"),
        ({"home": "16"}, "its home is '16', not '0'"),
        ({"exact": "maybe"}, "its exact is 'maybe', not 'true' or 'false'"),
        ({"num_tokens": "7"}, "its num_tokens is '7', not '34'"),
        ({"format": "x" * 9999}, "its format is 'x{78}…, not"),
        ({"namespace": json.dumps({"weights": "z" * 9999})}, "with weights 'z{78}…; "),
        ({"namespace": "["}, "namespace is not a JSON object"),
        ({"namespace": "[" * 99999}, "namespace is not a JSON object"),
        ({"namespace": "7"}, "namespace is not a JSON object"),
        ({"namespace": '{"weights": "ab"}'}, "computed with weights 'ab'; .* has '[0-9a-f]{64}'"),
        ({"namespace": '{"tokenizer": "ab"}'}, "with tokenizer 'ab'"),
        ({"namespace": '{"architecture": "X y"}'}, "with architecture or config 'X y'"),
        ({"namespace": '{"compute_dtype": "bfloat16"}'}, "with precision 'bfloat16'"),
        ({"namespace": '{"adapter": "ab"}'}, "with adapter 'ab'; .* has None"),
    ],
)
def test_a_file_of_another_model(
    metadata: dict[str, str], message: str, llama: Workplace, foreign_file: Path
) -> None:
    rewrite(foreign_file, nothing, **metadata)
    with closing(llama.catalog()) as catalog:
        with pytest.raises(InputError, match=message):
            import_prefix(foreign_file, llama.identity(), catalog)
        assert catalog.entries() == []


def test_what_a_file_does_not_state_is_named(llama: Workplace, foreign_file: Path) -> None:
    weights = llama.identity().namespace.weights
    rewrite(foreign_file, nothing, namespace=json.dumps({"weights": weights, "adapter": None}))
    with closing(llama.catalog()) as catalog:
        (note,) = import_prefix(foreign_file, llama.identity(), catalog).notes
    assert note == (
        "foreign.safetensors does not state its architecture or config, tokenizer, RoPE, precision."
    )


def test_deterministic_runs_take_only_what_they_could_have_computed(
    llama: Workplace, kvtool_file: Path, tmp_path: Path
) -> None:
    identity = llama.identity(deterministic=True)
    with closing(llama.catalog()) as catalog:
        with pytest.raises(InputError, match="with implementation None; "):
            import_prefix(kvtool_file, identity, catalog)
        rewrite(kvtool_file, nothing, namespace="{}")
        with pytest.raises(InputError, match="does not say what computed it"):
            import_prefix(kvtool_file, identity, catalog)
        stated = identity.namespace.described()
        rewrite(kvtool_file, nothing, namespace=json.dumps(stated))
        assert import_prefix(kvtool_file, identity, catalog).num_tokens == NUM_PREFIX


@pytest.mark.parametrize("content", [b"", b"x" * 100, None])
def test_no_safetensors_file(content: bytes | None, llama: Workplace, tmp_path: Path) -> None:
    path = tmp_path / "in"
    if content is not None:
        path.write_bytes(content)
    with (
        closing(llama.catalog()) as catalog,
        pytest.raises(InputError, match=r"in is (not|damaged)"),
    ):
        import_prefix(path, llama.identity(), catalog)


def test_a_file_that_was_cut_short(llama: Workplace, kvtool_file: Path) -> None:
    kvtool_file.write_bytes(kvtool_file.read_bytes()[:-8])
    with closing(llama.catalog()) as catalog, pytest.raises(InputError, match="is damaged"):
        import_prefix(kvtool_file, llama.identity(), catalog)


def test_sliding_layers_that_forgot_are_refused_with_a_hint(tmp_path: Path) -> None:
    work, path = Workplace.of("gemma3_text", tmp_path), tmp_path / "in.safetensors"
    cache = DynamicCache(config=work.model.config)
    with torch.inference_mode():
        work.model(work.prompt[None], cache=cache, use_cache=True)
    tensors = {"tokens": work.prompt}
    for number, layer in enumerate(cache.layers):
        tensors[f"layers.{number}.key"] = layer.keys.contiguous()
        tensors[f"layers.{number}.value"] = layer.values.contiguous()
    save_file(tensors, path)
    with (
        closing(work.catalog()) as catalog,
        pytest.raises(InputError, match=r"\[1, 2, 7, 16\]") as e,
    ):
        import_prefix(path, work.identity(), catalog)
    assert "made without config" in str(e.value.hint)


def test_importing_twice_stores_once(llama: Workplace, foreign_file: Path) -> None:
    with closing(llama.catalog()) as catalog:
        first = import_prefix(foreign_file, llama.identity(), catalog)
        size = catalog.totals().bytes
        assert import_prefix(foreign_file, llama.identity(), catalog) == first
        assert catalog.totals().bytes == size
