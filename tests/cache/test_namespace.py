from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from kvtool.cache.namespace import Namespace

BASE = Namespace(
    weights="w",
    architecture="a",
    rope_regime="r",
    compute_dtype="float32",
    kv_dtype="float32",
    kv_layout="block-major",
    block_size=16,
    tokenizer="t",
)


def digest(**changes: object) -> bytes:
    return dataclasses.replace(BASE, **changes).digest


@pytest.mark.report("S67")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"adapter": "X"}, {"salt": "X"}),
        ({"adapter": "ab", "salt": "c"}, {"adapter": "a", "salt": "bc"}),
        ({"salt": None}, {"salt": ""}),
        ({"adapter": None, "salt": None}, {"adapter": "", "salt": ""}),
        ({"weights": "ab", "architecture": "c"}, {"weights": "a", "architecture": "bc"}),
        ({"implementation": None}, {"implementation": "None"}),
        ({"block_size": 16}, {"block_size": 1}),
    ],
)
def test_different_namespaces_have_different_digests(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert digest(**one) != digest(**other)
    assert digest(**one) == digest(**one)


@pytest.mark.report("S07", "S67")
def test_every_field_counts() -> None:
    digests = {BASE.digest}
    for field in dataclasses.fields(Namespace):
        changed = 32 if field.name == "block_size" else "changed"
        digests.add(digest(**{field.name: changed}))
    assert len(digests) == 1 + len(dataclasses.fields(Namespace))


def test_equal_fields_give_equal_digests() -> None:
    assert dataclasses.replace(BASE) == BASE and BASE.digest == digest()
    assert len(BASE.digest) == 32
    assert digest(salt="\udcff") != digest(salt="?"), "any string a shell can pass is a salt"


@pytest.mark.report("S14")
def test_digests_and_block_hashes_are_the_same_in_every_process() -> None:
    program = """
import numpy as np
from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.namespace import Namespace
space = Namespace(weights="w", architecture="a", rope_regime="r", compute_dtype="f", kv_dtype="f",
                  kv_layout="l", block_size=16, tokenizer="t", salt="s")
tokens = np.arange(16, dtype=np.int32)
print(hash_block(root_hash(space.digest), token_bytes(tokens)).hex())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(outputs.pop().split()[0]) == 64
