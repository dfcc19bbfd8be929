"""Whose KV it is, on disk too: the same tokens of another namespace are a miss."""

import pytest
from tiers.disk.disk_runs import (
    BLOCK_SIZE,
    GROUPS,
    MIB,
    fields,
    hit,
    namespace,
    prompt,
    run_files,
    run_of,
    tier_of,
    views_of,
)

from kvtool.cache.backing import StoredBlock
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.disk import DiskTier
from kvtool.tiers.tier import Missing


def put(tier, space):
    run = run_of(prompt(16), space=space)
    return tier.put(run, views_of(run)).num_blocks


PAIRS = {
    "weights": ({"weights": "a"}, {"weights": "b"}),
    "KV dtype": ({"kv_dtype": "bfloat16"}, {"kv_dtype": "float16"}),
    "block size": ({"block_size": 16}, {"block_size": 32}),
    "rope": ({"rope_regime": "yarn 2"}, {"rope_regime": "yarn 4"}),
    "layout": ({"kv_layout": "1"}, {"kv_layout": "2"}),
    "adapter by content": ({"adapter": "digest 1"}, {"adapter": "digest 2"}),
    "salt": ({"salt": "a"}, {"salt": "b"}),
    "empty salt": ({"salt": ""}, {"salt": None}),
    "salt or adapter": ({"salt": "X"}, {"adapter": "X"}),
    "no concatenation": ({"adapter": "ab", "salt": "c"}, {"adapter": "a", "salt": "bc"}),
}


@pytest.mark.report("S49")
@pytest.mark.report("S67")
@pytest.mark.report("S68")
@pytest.mark.report("S69")
@pytest.mark.parametrize("pair", PAIRS)
def test_other_namespaces_miss_and_the_same_one_hits_in_a_new_process(tmp_path, pair):
    mine, other = (namespace(**changes) for changes in PAIRS[pair])
    tier = tier_of(tmp_path)
    assert put(tier, mine) == 4
    tier.close()
    tier = tier_of(tmp_path)
    assert hit(tier, prompt(16), other) == 0
    assert tier.extend(run_of(prompt(16), space=other).parent, prompt(3)) is None
    assert hit(tier, prompt(16), mine) == 16
    assert put(tier, other) == 4  # nor is it mistaken for stored
    assert len({entry.namespace for entry in Catalog.open(tmp_path).entries()}) == 2


def test_a_salt_is_never_written_down(tmp_path):
    secret = "hunter2-and-more"
    tier = tier_of(tmp_path)
    tier.describe(namespace(salt=secret), fields(salt="set"))
    put(tier, namespace(salt=secret))
    tier.close()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    assert Catalog.open(tmp_path).entries()[0].fields["salt"] == "set"


@pytest.mark.report("S49")
def test_blocks_of_another_shape_are_refused_when_they_are_read(tmp_path):
    """The namespace keeps shapes apart; were it wrong, the file would still tell."""
    tier = tier_of(tmp_path)
    run = run_of(prompt(16))
    tier.put(run, views_of(run))
    for groups, block_size in ((GROUPS[:1], BLOCK_SIZE), (GROUPS, 2 * BLOCK_SIZE)):
        other = DiskTier(tmp_path, groups, block_size, cap_bytes=MIB)
        places = other.contains(run.keys, run.tokens.reshape(-1, 4))
        blocks = [StoredBlock(key, 4, "disk", at) for key, at in zip(run.keys, places, strict=True)]
        with pytest.raises(Missing, match="another shape"):
            other.get(blocks, views_of(run), lambda layer: None)
        tier.put(run, views_of(run))


@pytest.mark.report("S49")
def test_a_file_of_another_format_version_is_not_taken_in(tmp_path, monkeypatch):
    monkeypatch.setattr("kvtool.tiers.disk.run_format.FORMAT_VERSION", 2)
    tier = tier_of(tmp_path)
    put(tier, namespace())
    monkeypatch.undo()
    reasons = [damage.reason for damage in Catalog.open(tmp_path).check()]
    assert reasons == ["format version 2; this kvtool reads 1"]
    with pytest.raises(Missing, match="format version 2"):
        hit(tier, prompt(16), namespace())
    assert run_files(tmp_path) == []
