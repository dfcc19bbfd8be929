"""Figures that the case `peers` lays beside those of other simulators."""

import json
from pathlib import Path

import pytest

from benchmarks.cases import peers
from kvtool.analysis.accesses import Accesses
from kvtool.errors import ConfigError
from kvtool.traces.open_trace import open_trace
from kvtool.traces.prepare import prepare, unit_of

# Block ids and prompt tokens; the one token in block 4 leaves 512 as the only size that fits.
REQUESTS = (([1, 2, 3], 1536), ([1, 2, 4], 1025), ([1, 2, 3], 1536), ([1, 5], 1024))
REQUESTS += (([1, 2, 3], 1536),)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [
        {
            "timestamp": 1000 * n,
            "input_length": length,
            "output_length": 1,
            "hash_ids": ids,
        }
        for n, (ids, length) in enumerate(REQUESTS)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def accesses(path: Path, monkeypatch: pytest.MonkeyPatch) -> Accesses:
    monkeypatch.setattr(peers, "CAPACITIES", (3, 4))
    trace = open_trace([path])
    unit = unit_of(trace, 16)
    return Accesses.of(prepare(trace, None, unit), unit)


def test_tokens_of_the_second_half(accesses: Accesses) -> None:
    """Of the third request on. Three blocks: the second and the fourth request evict block 3."""
    found = peers.warm_tokens(accesses)
    assert found["ceiling", peers.UNLIMITED] == 1536 + 512 + 1536
    assert found["lru", 3] == 1024 + 512 + 1024
    assert found["lru", 4] == 1536 + 512 + 1536
    assert found["optimal", 3] == found["ceiling", peers.UNLIMITED]


def test_blocks_of_all_requests(accesses: Accesses) -> None:
    found = peers.cold_blocks(accesses)
    assert found["radix", peers.UNLIMITED] == 2 + 3 + 1 + 3
    assert list(found) == [("radix", peers.UNLIMITED), ("radix", 3), ("radix", 4)]


def test_a_figure_that_differs_is_told(accesses: Accesses) -> None:
    with pytest.raises(AssertionError, match=r"other hits \(its, ours\): .*'lru', 3.*\(8, 7\)"):
        peers.row("peer", "tokens", accesses, theirs={("lru", 3): 8}, ours={("lru", 3): 7})


def test_other_traces_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n")
    with pytest.raises(ConfigError, match="no hash ids"):
        list(peers.run(str(path)))


def test_the_same_hits_as_the_peers(
    path: Path, accesses: Accesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kvcache_sim")
    pytest.importorskip("prefixlens")
    monkeypatch.setattr(peers, "CAPACITIES", (3,))  # the first half fills it
    simulated, exact = peers.run(str(path))
    assert (simulated["peer"], exact["peer"]) == ("kvcache-simulator", "prefixlens")
    assert len(simulated["hits"]) == 4 and len(exact["hits"]) == 2
    for hit in (*simulated["hits"], *exact["hits"]):
        assert hit["theirs"] == hit["ours"]
