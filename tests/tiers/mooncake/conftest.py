"""A healthy store that the tests of this folder share; those that break one start their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mooncake_cluster
import pytest
from mooncake_cluster import DEADLINE_S, Cluster
from numpy_memory import BLOCK_SIZE, GROUPS

from kvtool.cache.group import GroupSpec
from kvtool.tiers.mooncake import MooncakeTier


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with mooncake_cluster.running(tmp_path_factory.mktemp("mooncake")) as cluster:
        yield cluster


@pytest.fixture
def connected() -> Callable[..., MooncakeTier]:
    """Makes a tier for a store, by default for small odd blocks; tries again after 0.2 s."""

    def make(
        cluster: Cluster,
        groups: tuple[GroupSpec, ...] = GROUPS,
        block_size: int = BLOCK_SIZE,
    ) -> MooncakeTier:
        return MooncakeTier(cluster.url, groups, block_size, deadline_s=DEADLINE_S, pause_s=0.2)

    return make
