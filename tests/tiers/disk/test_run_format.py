"""The run file: round trips over odd shapes, and nothing a file says is believed unchecked."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers.disk.disk_runs import NAMESPACE, fields, kv_of, prompt, run_of

from kvtool.cache.group import GroupSpec
from kvtool.tiers.disk import header
from kvtool.tiers.disk.array_views import ArrayViews
from kvtool.tiers.disk.contents import _read
from kvtool.tiers.disk.geometry import layer_bytes
from kvtool.tiers.disk.header import Damaged
from kvtool.tiers.disk.run_head import read_head
from kvtool.tiers.disk.run_writer import prepare, slice_run, write_file


@st.composite
def group_lists(draw):
    """Layers dealt out to up to three groups of any kind."""
    owners = draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    groups = []
    for owner in sorted(set(owners)):
        kind = draw(st.sampled_from(["kv", "latent"]))
        groups.append(
            GroupSpec(
                layers=tuple(i for i, other in enumerate(owners) if other == owner),
                kind=kind,
                num_kv_heads=1 if kind == "latent" else draw(st.integers(1, 3)),
                head_dim=draw(st.integers(1, 7)),
                dtype=draw(st.sampled_from(["float32", "bfloat16", "float16"])),
                window=draw(st.none() | st.integers(1, 9)),
                latent_dim=1 if kind == "latent" else None,
            )
        )
    return tuple(groups)


@settings(max_examples=60)
@given(
    groups=group_lists(),
    block_size=st.integers(1, 7),
    num_tokens=st.integers(1, 20),
    exact=st.booleans(),
    provenance=st.text(max_size=8),
    data=st.data(),
)
def test_round_trip(tmp_path_factory, groups, block_size, num_tokens, exact, provenance, data):
    whole = run_of(prompt(num_tokens), block_size=block_size)
    first = data.draw(st.integers(0, len(whole.keys) - 1))
    run = slice_run(whole, first, len(whole.keys), block_size)
    run = run._replace(exact=exact, provenance=provenance)
    kv = kv_of(whole.keys, groups, block_size)
    views = ArrayViews(groups, block_size, kv)
    prepared = prepare(run, fields(), groups, block_size, views, first)
    path = tmp_path_factory.mktemp("format") / "file"
    with path.open("wb") as file:
        write_file(file.fileno(), prepared)
    assert path.stat().st_size == prepared.num_bytes
    with path.open("rb") as file:
        head = read_head(file.fileno(), prepared.name)
        contents = _read(file.fileno(), prepared.name)
    assert np.array_equal(head.run.tokens, run.tokens)
    assert head.run._replace(tokens=None) == run._replace(tokens=None)
    assert (head.groups, head.block_size, head.fields) == (groups, block_size, fields())
    used = num_tokens - (len(whole.keys) - 1) * block_size
    for got, sent, group in zip(contents.kv, kv, groups, strict=True):
        wanted = sent[first:].copy()
        rows = wanted.reshape(len(wanted), len(group.layers), -1, block_size,
                              layer_bytes(group, 1) // _planes(group))  # fmt: skip
        rows[-1, :, :, used:] = 0
        assert np.array_equal(got, wanted)


def _planes(group):
    return 1 if group.kind == "latent" else 2 * group.num_kv_heads


def test_many_blocks_need_more_than_one_write(tmp_path):
    group = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=1, dtype="float16"),)
    run = run_of(prompt(1500), block_size=1)
    views = ArrayViews(group, 1, kv_of(run.keys, group, 1))
    prepared = prepare(run, {}, group, 1, views, 0)
    path = tmp_path / "file"
    with path.open("wb") as file:
        write_file(file.fileno(), prepared)
    with path.open("rb") as file:
        assert len(_read(file.fileno(), prepared.name).kv[0]) == 1500


def test_a_write_that_takes_only_a_part_is_continued(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: real(fd, [bytes(buffers[0])[:100]]))
    run = run_of(prompt(9))
    groups = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=3, dtype="float32"),)
    prepared = prepare(run, {}, groups, 4, ArrayViews(groups, 4, kv_of(run.keys, groups)), 0)
    with (tmp_path / "file").open("wb") as file:
        write_file(file.fileno(), prepared)
    with (tmp_path / "file").open("rb") as file:
        _read(file.fileno(), prepared.name)


def test_the_name_says_what_is_inside():
    run = run_of(prompt(4))
    groups = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=1, dtype="float32"),)
    kv = kv_of(run.keys, groups)

    def name(run=run, groups=groups, kv=kv, fields=fields()):  # noqa: B008
        return prepare(run, fields, groups, 4, ArrayViews(groups, 4, kv), 0).name

    names = {
        name(),
        name(run=run._replace(namespace=b"n" * 32)),
        name(run=run._replace(exact=False)),
        name(run=run._replace(home=4)),
        name(groups=(replace(groups[0], window=3),)),
        name(kv=tuple(array ^ 1 for array in kv)),
        name(fields=fields(salt="set")),
    }
    assert len(names) == 7 and name() in names


def _file(document: object, data: bytes = b"") -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text + data


HOSTILE = {
    "empty": b"",
    "short": b"\0" * 7,
    "no header": b"\0" * 8,
    "endless header": b"\xff" * 8 + b"{}",
    "longer than the file": (100).to_bytes(8, "little") + b"{}",
    "pickle": b"\x80\x04\x95" + b"\0" * 20,
    "list": _file([]),
    "not text": _file(b"\xff\xfe{}"),
    "deep": _file(b"[" * 200_000),
    "deep object": _file(b'{"a":' * 100_000),
    "huge number": _file(b'{"a":{"dtype":"U8","shape":[' + b"9" * 5000 + b"]}}"),
    "negative": _file({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, -1]}}),
    "true is no number": _file({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}),
    "overflow": _file({"a": {"dtype": "U8", "shape": [1 << 63, 4], "data_offsets": [0, 0]}}),
    "past the end": _file({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, b"12"),
    "gap": _file({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"12"),
    "overlap": _file(
        {n: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]} for n in "ab"}, b"1"
    ),
    "unknown dtype": _file({"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 1]}}, b"1"),
    "metadata is no text": _file({"__metadata__": {"format": 1}}),
    "metadata is no object": _file({"__metadata__": []}),
    "twice": _file(b'{"__metadata__":{},"__metadata__":{}}'),
    "NaN": _file(b'{"__metadata__":NaN}'),
    "another program's": _file({"__metadata__": {"format": "pt"}}),
    "no tensors": _file({"__metadata__": {"format": "kvtool run", "version": "1"}}),
}


@pytest.mark.report("S44")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_damaged_and_nothing_worse(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[name])
    with path.open("rb") as file, pytest.raises(Damaged):
        read_head(file.fileno(), "0" * 64)


CHANGES = {
    "version": "2",
    "format": "x",
    "namespace": "zz",
    "parent": "00",
    "home": "-4",
    "block_size": "0",
    "fields": '{"a": {}}',
    "groups": "[]",
}


def _forge(path, change_metadata, change_groups=lambda groups: None):
    """A file whose name is right, as anybody can make it; its inside is not."""
    from hashlib import sha256

    run = run_of(prompt(6))
    groups = (GroupSpec(layers=(0,), kind="kv", num_kv_heads=1, head_dim=2, dtype="float32"),)
    prepared = prepare(run, fields(), groups, 4, ArrayViews(groups, 4, kv_of(run.keys, groups)), 0)
    size = int.from_bytes(prepared.head[:8], "little")
    document = json.loads(prepared.head[8 : 8 + size])
    stated = json.loads(document["__metadata__"]["groups"])
    change_groups(stated)
    document["__metadata__"]["groups"] = json.dumps(stated)
    document["__metadata__"].update(change_metadata)
    head = _file(document) + prepared.head[8 + size :]
    path.write_bytes(head + b"".join(prepared.kv))
    return sha256(head).hexdigest()


@pytest.mark.report("S71")
@pytest.mark.parametrize("key", CHANGES)
def test_a_right_name_does_not_make_the_inside_right(tmp_path, key):
    name = _forge(tmp_path / "file", {key: CHANGES[key]})
    with (tmp_path / "file").open("rb") as file, pytest.raises(Damaged):
        read_head(file.fileno(), name)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": [0, 0]},
        {"layers": []},
        {"layers": "ab"},
        {"layers": [-1]},
        {"kind": "other"},
        {"dtype": "float64"},
        {"head_dim": 1 << 40},
        {"head_dim": 3},
        {"num_kv_heads": 2.0},
        {"window": "x"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_layer_groups_of_a_file_are_checked(tmp_path, change):
    name = _forge(tmp_path / "file", {}, lambda groups: groups[0].update(change))
    with (tmp_path / "file").open("rb") as file, pytest.raises(Damaged):
        read_head(file.fileno(), name)


def test_an_unchanged_forgery_is_read(tmp_path):
    name = _forge(tmp_path / "file", {})
    with (tmp_path / "file").open("rb") as file:
        assert read_head(file.fileno(), name).run.namespace == NAMESPACE


def test_the_first_tensor_is_aligned():
    assert len(header.encode({"a": "b"}, [("t", "U8", (3,))])) % header.ALIGNMENT == 0
