"""Kernels run on the GPU where there is one, in Triton's interpreter where there is none."""

import inspect
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.append(str(Path(__file__).parent))  # paged_case, oracle

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before a kernel module is imported


@pytest.fixture(scope="session", autouse=True)
def _names_are_listed_once() -> Iterator[None]:
    """The interpreter goes through all names of its language at every call of a function."""
    from triton.language.core import is_builtin

    getmembers = inspect.getmembers

    @cache
    def builtins(thing: Any) -> tuple[str, ...]:
        return tuple(name for name, member in getmembers(thing) if is_builtin(member))

    def quick(thing: Any, predicate: Any = None) -> list[tuple[str, Any]]:
        is_language = getattr(thing, "__module__", thing.__name__).startswith("triton.language")
        if predicate is not None or not is_language:
            return getmembers(thing, predicate)
        return [(name, getattr(thing, name)) for name in builtins(thing)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "getmembers", quick)
        yield


@pytest.fixture
def poisoned_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that a launcher allocates holds NaN until a kernel writes it."""
    empty = torch.empty

    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        tensor = empty(*args, **kwargs)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", poisoned)
