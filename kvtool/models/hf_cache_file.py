"""A file of KV made by anyone, looked at with suspicion (format: hf_cache.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.errors import InputError
from kvtool.models.hf_cache import DTYPE_NAMES, FORMAT, Shape, StoredTensor, tensors_of
from kvtool.models.identity import ModelIdentity
from kvtool.models.rope_regime import rope_regime

# Of the namespace: what decides the numbers. What a file does not say cannot be checked.
_ORIGIN = {
    "weights": "weights",
    "architecture": "architecture or config",
    "tokenizer": "tokenizer",
    "rope_regime": "RoPE",
    "compute_dtype": "precision",
    "adapter": "adapter",
}

_SHOWN = 80  # characters of what a file says
_OTHER_DTYPE = "Give the --dtype that it was computed in."
_CUT = "Sliding layers, too, must be kept whole: fill a DynamicCache() that is made without config."


@contextmanager
def open_hf_cache(path: Path) -> Iterator[HFCacheFile]:
    """Raises `InputError`: no such file, or not a whole safetensors file."""
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    try:
        opened = safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged or no safetensors file: {error}.") from error
    with opened as file:
        yield HFCacheFile(path, file)


class HFCacheFile:
    """An open file; tensors are read when they are asked for."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._names = set(file.keys())
        self._metadata: Mapping[str, str] = file.metadata() or {}

    @property
    def is_exact(self) -> bool:
        """Not the result of reuse that changes KV; so it is unless the file says otherwise."""
        return self._metadata.get("exact") != "false"

    def tokens(self) -> Tokens:
        """int32 [n]"""
        tokens: Tokens = self._file.get_tensor("tokens").numpy().astype(np.int32)
        return tokens

    def rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Tokens [start, stop) of a tensor: [num_kv_heads, stop - start, head_dim], contiguous."""
        rows: torch.Tensor = self._file.get_slice(name)[:, :, start:stop][0].contiguous()
        return rows

    def check(self, identity: ModelIdentity, groups: tuple[GroupSpec, ...]) -> tuple[str, ...]:
        """Raises `InputError` unless all of it can be KV of this model; what it does not say."""
        self._check_stated("format", FORMAT)
        self._check_stated("home", "0")
        self._check_stated("exact", "true", "false")
        notes = self._check_origin(identity)
        num_tokens = self._check_tokens(identity)
        self._check_stated("num_tokens", str(num_tokens))
        expected = tensors_of(groups, num_tokens)
        self._check_names({*expected, "tokens"})
        for name, tensor in expected.items():
            self._check_layout(name, tensor)
        for name in expected:
            self._check_finite(name)
        return notes

    def _check_stated(self, field: str, *allowed: str) -> None:
        stated = self._metadata.get(field)
        if stated is not None and stated not in allowed:
            wanted = " or ".join(repr(value) for value in allowed)
            self._refuse(f"its {field} is {_shown(stated)}, not {wanted}")

    def _check_origin(self, identity: ModelIdentity) -> tuple[str, ...]:
        stated, namespace, origin = self._namespace(), identity.namespace, dict(_ORIGIN)
        unknown = [what for field, what in origin.items() if field not in stated]
        if namespace.implementation is not None:
            origin["implementation"] = "implementation"
            if "implementation" not in stated:
                self._refuse(
                    "it does not say what computed it, which --deterministic needs to know"
                )
        for field, what in origin.items():
            wanted = getattr(namespace, field)
            if field in stated and stated[field] != wanted:
                self._refuse(
                    f"it was computed with {what} {_shown(stated[field])}; {identity.name} has {wanted!r}",
                    _OTHER_DTYPE if field == "compute_dtype" else None,
                )
        return (f"{self._path.name} does not state its {', '.join(unknown)}.",) if unknown else ()

    def _namespace(self) -> Mapping[str, object]:
        try:
            stated = json.loads(self._metadata.get("namespace", "{}"))
        except (ValueError, RecursionError):
            stated = None
        if not isinstance(stated, dict):
            self._refuse("its metadata field namespace is not a JSON object")
        return stated

    def _check_tokens(self, identity: ModelIdentity) -> int:
        if "tokens" not in self._names:
            self._refuse("it has no tensor tokens")
        tokens = self._file.get_tensor("tokens")
        if tokens.dim() != 1 or tokens.dtype not in (torch.int32, torch.int64) or not len(tokens):
            kind = str(tokens.dtype).removeprefix("torch.")
            self._refuse(f"tokens is {kind} {list(tokens.shape)}; it must be int32 [n], n > 0")
        wrong = ((tokens < 0) | (tokens >= identity.vocab_size)).nonzero()
        if len(wrong):
            index = int(wrong[0])
            allowed = f"allowed: 0 to {identity.vocab_size - 1}"
            self._refuse(f"the token id at index {index} is {int(tokens[index])}; {allowed}")
        limit = rope_regime(identity.config).max_model_len
        if len(tokens) > limit:
            self._refuse(f"it has {len(tokens)} tokens; the model's limit is {limit}")
        return len(tokens)

    def _check_names(self, expected: set[str]) -> None:
        missing, unknown = expected - self._names, self._names - expected
        for what, names in (("lacks", missing), ("has what the model has not:", unknown)):
            if names:
                shown = ", ".join(_shown(name) for name in sorted(names)[:3])
                rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
                self._refuse(f"it {what} {shown}{rest}")

    def _check_layout(self, name: str, tensor: StoredTensor) -> None:
        layout = self._file.get_slice(name)
        shape: Shape = tuple(layout.get_shape())
        dtype, wanted = layout.get_dtype(), DTYPE_NAMES[tensor.dtype]
        if dtype != wanted:
            self._refuse(f"{name} is {dtype}, but the model's KV is {wanted}", _OTHER_DTYPE)
        if shape != tensor.shape:
            is_cut = len(shape) == 4 and shape[2] < tensor.shape[2]
            self._refuse(
                f"{name} is {[*shape]}; it must be {[*tensor.shape]}", _CUT * is_cut or None
            )

    def _check_finite(self, name: str) -> None:
        finite = self._file.get_tensor(name).isfinite()
        if not bool(finite.all()):
            place = (~finite).nonzero()[0].tolist()
            self._refuse(f"{name} holds NaN or infinity, first at {place}")

    def _refuse(self, reason: str, hint: str | None = None) -> NoReturn:
        raise InputError(f"{self._path} cannot be imported: {reason}.", hint=hint)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
