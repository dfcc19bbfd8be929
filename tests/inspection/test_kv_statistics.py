"""Statistics of stored KV against numpy over all values at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kvtool.cache.backing import Run
from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.group import DTYPE_BYTES, GroupSpec
from kvtool.errors import CacheError
from kvtool.inspection import kv_statistics as module
from kvtool.inspection.kv_statistics import KVStatistics, kv_statistics
from kvtool.inspection.kv_sums import position_bins
from kvtool.inspection.part_statistics import PartStatistics
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Entry

SIZE = 4  # tokens a block
NAMESPACE = bytes(32)
Values = npt.NDArray[np.float64]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog.open(tmp_path / "kv", create=True)
    yield catalog
    catalog.close()


def kv_group(dtype: str = "float32", layers: tuple[int, ...] = (0, 1)) -> GroupSpec:
    return GroupSpec(layers=layers, kind="kv", num_kv_heads=2, head_dim=8, dtype=dtype)


LATENT = GroupSpec(
    layers=(0, 1, 2), kind="latent", num_kv_heads=1, head_dim=12, dtype="bfloat16", latent_dim=8
)


def values_of(group: GroupSpec, num_tokens: int, seed: int = 0) -> dict[str, Values]:
    """[layers, heads, tokens, dim] by part, as the group's dtype has them."""
    rng = np.random.default_rng(seed)
    dims = {"key": group.head_dim, "value": group.head_dim}
    if group.latent_dim:
        dims = {"latent": group.latent_dim, "rope": group.head_dim - group.latent_dim}
    shape = len(group.layers), group.num_kv_heads, num_tokens
    made = {part: torch.tensor(rng.normal(0.3, 2, (*shape, dim))) for part, dim in dims.items()}
    dtype = getattr(torch, group.dtype)
    return {part: tensor.to(dtype).double().numpy() for part, tensor in made.items()}


def stored_bytes(group: GroupSpec, values: dict[str, Values]) -> npt.NDArray[np.uint8]:
    """The layout of a pool block, made by torch: planes in front of heads, rope behind latent."""
    parts = [torch.tensor(part).to(getattr(torch, group.dtype)) for part in values.values()]
    whole = torch.cat(parts, dim=-1) if group.latent_dim else torch.stack(parts, dim=1)
    whole = whole.reshape(len(group.layers), -1, *whole.shape[-2:])  # [layers, planes, tokens, dim]
    num_blocks = -(-whole.shape[2] // SIZE)
    padded = torch.zeros(*whole.shape[:2], num_blocks * SIZE, whole.shape[3], dtype=whole.dtype)
    padded[:, :, : whole.shape[2]] = whole
    blocks = padded.unflatten(2, (num_blocks, SIZE)).permute(2, 0, 1, 3, 4).contiguous()
    return blocks.view(torch.uint8).reshape(num_blocks, len(group.layers), -1).numpy()


def put(
    catalog: Catalog,
    groups: tuple[GroupSpec, ...],
    values: list[dict[str, Values]],
    *,
    first: int = 0,
    seed: int = 0,
    namespace: bytes = NAMESPACE,
) -> Entry:
    """Store all tokens from block `first` on as one run."""
    num_tokens = next(iter(values[0].values())).shape[2]
    tokens = np.random.default_rng(seed).integers(0, 90, num_tokens, dtype=np.int32)
    keys = BlockKeys(namespace, tokens, SIZE)
    run = Run(
        namespace, keys.parent(first), tuple(keys.span(first, len(keys))),
        tokens[first * SIZE :], first * SIZE,
    )  # fmt: skip
    kv = [stored_bytes(group, v)[first:] for group, v in zip(groups, values)]
    return catalog.put_run({}, groups, run, kv, block_size=SIZE)


def assert_is_of(found: PartStatistics, values: Values) -> None:
    """values [heads, tokens, dim]"""
    finite = values[np.isfinite(values)]
    assert found.count == finite.size
    assert (found.nan, found.inf) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert found.mean == pytest.approx(finite.mean(), rel=1e-9)
    assert found.std == pytest.approx(finite.std(), rel=1e-9)
    assert found.abs_max == np.abs(finite).max()
    assert found.zeros == (finite == 0).mean()
    norms = np.linalg.norm(np.where(np.isfinite(values), values, 0), axis=-1)
    assert found.head_norms == pytest.approx(norms.mean(axis=1), rel=1e-9)


def part_of(statistics: KVStatistics, layer: int, part: str) -> PartStatistics:
    (found,) = (p for p in statistics.parts if (p.layer, p.part) == (layer, part))
    return found


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("portion", [1, 1 << 20])
def test_figures_of_every_dtype(
    dtype: str, portion: int, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PORTION", portion)  # block by block, and all at once
    groups = kv_group(dtype, (0, 2)), kv_group(dtype, (1,))
    values = [values_of(group, 18, seed) for seed, group in enumerate(groups)]
    values[0]["key"][0, 1, 3:5] = 0
    statistics = kv_statistics(catalog, [put(catalog, groups, values)])
    assert (statistics.num_tokens, statistics.num_blocks) == (18, 5)
    assert [(p.layer, p.part) for p in statistics.parts] == [
        (layer, part) for layer in range(3) for part in ("key", "value")
    ]
    for group, parts in zip(groups, values):
        for row, layer in enumerate(group.layers):
            for part, expected in parts.items():
                assert_is_of(part_of(statistics, layer, part), expected[row])
    assert part_of(statistics, 0, "key").zeros == pytest.approx(16 / (2 * 18 * 8))


def test_latent_and_rope_are_apart(catalog: Catalog) -> None:
    values = values_of(LATENT, 9)
    values["rope"] *= 4
    statistics = kv_statistics(catalog, [put(catalog, (LATENT,), [values])])
    assert [p.part for p in statistics.positions] == ["latent", "rope"]
    for layer in range(3):
        for part in ("latent", "rope"):
            assert_is_of(part_of(statistics, layer, part), values[part][layer])
            assert len(part_of(statistics, layer, part).head_norms) == 1


def test_nan_and_infinity_are_counted_and_left_out(catalog: Catalog) -> None:
    group = kv_group("float16")
    values = values_of(group, 8)
    values["value"][1, 0, 5, 2] = np.nan
    values["value"][1, 1, 6, :3] = -np.inf
    statistics = kv_statistics(catalog, [put(catalog, (group,), [values])])
    found = part_of(statistics, 1, "value")
    assert (found.nan, found.inf, found.count) == (1, 3, 2 * 8 * 8 - 4)
    assert_is_of(found, values["value"][1])
    assert part_of(statistics, 0, "value").nan == 0
    broken = {p.part: p.broken for p in statistics.positions}
    assert not broken["key"].any()
    columns = [list(statistics.edges).index(4), list(statistics.edges).index(6)]
    assert np.argwhere(broken["value"]).tolist() == [[1, column] for column in columns]


def test_large_values_do_not_overflow(catalog: Catalog) -> None:
    group = kv_group("bfloat16", (0,))
    values = {part: np.full((1, 2, 4, 8), 3.3895313892515355e38) for part in ("key", "value")}
    found = kv_statistics(catalog, [put(catalog, (group,), [values])]).parts[0]
    assert (found.mean, found.std, found.inf) == (pytest.approx(values["key"].max()), 0, 0)
    assert found.head_norms[0] == pytest.approx(values["key"].max() * 8**0.5)


def test_outlier_channels(catalog: Catalog) -> None:
    group = kv_group()
    values = values_of(group, 40)
    values["key"][1, 0, :, 5] *= 30
    values["key"][1, 1, :, 2] *= 12
    statistics = kv_statistics(catalog, [put(catalog, (group,), [values])])
    found = part_of(statistics, 1, "key")
    assert [(o.head, o.channel) for o in found.outliers] == [(0, 5), (1, 2)]
    rms = np.sqrt((values["key"][1] ** 2).mean(axis=1))
    assert found.outliers[0].ratio == pytest.approx(rms[0, 5] / np.median(rms))
    assert all(p.num_outliers == 0 for p in statistics.parts if p is not found)


def test_positions_and_a_sink(catalog: Catalog) -> None:
    group = kv_group()
    values = values_of(group, 50)
    values["value"][:, :, 0] /= 128
    statistics = kv_statistics(catalog, [put(catalog, (group,), [values])])
    edges = statistics.edges
    assert edges == (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    for found in statistics.positions:
        norms = np.linalg.norm(values[found.part], axis=-1).mean(axis=1)  # [layers, tokens]
        means = [norms[:, start:stop].mean(axis=1) for start, stop in itertools.pairwise(edges)]
        np.testing.assert_allclose(found.norms, np.stack(means, axis=1), rtol=1e-9)
    assert (first := part_of(statistics, 0, "value").first_norm) and first < 0.05
    assert (first := part_of(statistics, 0, "key").first_norm) and first > 0.3


def test_a_run_from_the_middle_has_no_first_position(catalog: Catalog) -> None:
    group = kv_group()
    values = values_of(group, 20)
    statistics = kv_statistics(catalog, [put(catalog, (group,), [values], first=2)])
    assert statistics.num_tokens == 12
    assert_is_of(part_of(statistics, 0, "key"), values["key"][0, :, 8:])
    assert statistics.parts[0].first_norm is None
    column = statistics.edges.index(8)
    assert np.isnan(statistics.positions[0].norms[:, :column]).all()
    assert not np.isnan(statistics.positions[0].norms[:, column:]).any()


def test_a_block_of_two_runs_counts_once(catalog: Catalog) -> None:
    group = kv_group()
    values = values_of(group, 16)
    whole = put(catalog, (group,), [values])
    calls: list[tuple[int, int]] = []
    twice = kv_statistics(catalog, [whole, whole], lambda *call: calls.append(call))
    assert twice.as_dict() == kv_statistics(catalog, [whole]).as_dict()
    assert calls == [(4, 8), (8, 8)]


def test_unreadable_runs_are_named(catalog: Catalog, tmp_path: Path) -> None:
    group = kv_group()
    entries = [put(catalog, (group,), [values_of(group, 8, s)], seed=s) for s in (1, 2)]
    damage(tmp_path / "kv", entries[0])
    statistics = kv_statistics(catalog, entries)
    assert statistics.num_blocks == 2
    assert [key for key, _ in statistics.unreadable] == [entries[0].key]
    with pytest.raises(CacheError, match=f"No stored KV could be read. {entries[0].key}: "):
        kv_statistics(catalog, entries[:1])


def damage(folder: Path, entry: Entry) -> None:
    """Other bytes at the end of the run's file."""
    (path,) = (path for path in folder.rglob(f"{entry.key}*") if path.is_file())
    content = bytearray(path.read_bytes())
    content[-4:] = b"\xff\xff\xff\xff"
    path.chmod(0o600)
    path.write_bytes(content)


def test_one_namespace_at_a_time(catalog: Catalog) -> None:
    group = kv_group()
    values = [values_of(group, 8)]
    entries = [put(catalog, (group,), values, namespace=bytes([n]) * 32) for n in (1, 2)]
    with pytest.raises(CacheError, match="several namespaces"):
        kv_statistics(catalog, entries)
    with pytest.raises(CacheError, match="No stored KV"):
        kv_statistics(catalog, [])


def test_as_dict_is_json(catalog: Catalog) -> None:
    group = kv_group()
    statistics = kv_statistics(catalog, [put(catalog, (group,), [values_of(group, 20)], first=2)])
    content: dict[str, Any] = json.loads(json.dumps(statistics.as_dict(), allow_nan=False))
    assert content["tokens"] == 12
    assert content["parts"][3]["layer"] == 1
    assert content["parts"][3]["part"] == "value"
    assert len(content["parts"][3]["head_norms"]) == 2
    assert content["position_norms"]["key"][0][0] is None
    assert len(content["position_edges"]) == len(content["position_norms"]["key"][0]) + 1


@pytest.mark.parametrize("num_positions", [1, 2, 3, 5, 100, 131072])
def test_bins_cover_every_position(num_positions: int) -> None:
    edges = position_bins(num_positions)
    assert (edges[0], edges[1]) == (0, 1)
    assert edges[-2] < num_positions <= edges[-1]
    assert len(edges) <= 2 * num_positions.bit_length() + 2
