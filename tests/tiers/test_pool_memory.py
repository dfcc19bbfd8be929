"""Pools as bytes: zero-copy on a CPU, staged elsewhere (forced here)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine.tiny_engine import paged_model

from kvtool.models.hf import PagedModel
from kvtool.models.pool_memory import PoolMemory

SIZE = 4


def pooled(name: str) -> PagedModel:
    model = paged_model(name)
    model.allocate_pools(9, SIZE)
    generator = torch.Generator().manual_seed(0)
    for pool in model.pools:
        pool.copy_(torch.rand(pool.shape, generator=generator))
    return model


def ids_of(model: PagedModel, *blocks: int) -> tuple[np.ndarray, ...]:
    """Another order in every group."""
    return tuple(np.roll(np.array(blocks, dtype=np.int64), g) for g in range(len(model.groups)))


@pytest.mark.report("S34")
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "gemma3_text", "mistral"])
def test_blocks_and_layers_are_the_bytes_of_the_pool(name: str, staged: bool) -> None:
    model = pooled(name)
    memory = PoolMemory(model, SIZE, staged=staged)
    ids = ids_of(model, 5, 1, 7)
    views = memory.source(ids)
    assert views.num_blocks == 3 and len(memory.layers) == len(model.layers)
    for group, (spec, pool) in enumerate(zip(model.groups, model.pools)):
        for index, block in enumerate(ids[group].tolist()):
            expected = pool[block].numpy().tobytes()
            view = views.block(group, index)
            assert bytes(view) == expected and len(view) == spec.block_bytes(SIZE)
            assert view.contiguous and view.format == "B" and not view.readonly
            for row, layer in enumerate(spec.layers):
                assert memory.layers[layer] == (group, row)
                assert bytes(views.layer(layer, index)) == pool[block, row].numpy().tobytes()


@pytest.mark.report("S34", "S52")
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "gemma3_text"])
def test_a_layer_is_in_the_pool_when_it_arrived_and_nothing_else_is_touched(
    name: str, staged: bool, inference: bool
) -> None:
    model = pooled(name)
    before = [pool.clone() for pool in model.pools]
    ids = ids_of(model, 5, 1, 7)
    with torch.inference_mode(inference):
        views = PoolMemory(model, SIZE, staged=staged).target(ids)
    for layer, (group, row) in enumerate(PoolMemory(model, SIZE).layers):
        for index, block in enumerate(ids[group].tolist()):
            data = np.random.default_rng(layer * 10 + index).bytes(len(views.layer(layer, index)))
            views.layer(layer, index)[:] = data
            if staged:
                assert torch.equal(model.pools[group][block, row], before[group][block, row])
            flat = torch.frombuffer(bytearray(data), dtype=before[group].dtype)
            before[group][block, row] = flat.view(before[group][block, row].shape)
        views.arrived(layer)
        for pool, expected in zip(model.pools, before):
            assert torch.equal(pool.view(torch.uint8), expected.view(torch.uint8))


def test_sources_of_a_device_are_snapshots() -> None:
    model = pooled("llama")
    views = PoolMemory(model, SIZE, staged=True).source(ids_of(model, 2))
    expected = model.pools[0][2].numpy().tobytes()
    model.pools[0].zero_()
    assert bytes(views.block(0, 0)) == expected


def test_pools_are_looked_up_late() -> None:
    model = paged_model("llama")
    model.release_pools()
    memory = PoolMemory(model, SIZE)
    model.allocate_pools(3, SIZE)
    model.pools[0][1] = 7.0
    assert set(np.frombuffer(memory.source(ids_of(model, 1)).block(0, 0), np.float32)) == {7.0}
