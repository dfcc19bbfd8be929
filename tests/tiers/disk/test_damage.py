"""Whatever happens to the files: a miss or the right bytes, and the next attempt computes."""

import logging
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers.disk.disk_runs import (
    hit,
    load,
    prompt,
    run_files,
    run_of,
    stored_blocks,
    tier_of,
    views_of,
)

from kvtool.cache.backing import StoredBlock
from kvtool.tiers.tier import Missing


def fill(folder, num_tokens=16, seed=0):
    tokens = prompt(num_tokens, seed)
    run = run_of(tokens)
    tier = tier_of(folder)
    tier.put(run, views_of(run))
    return tier, tokens


def load_or_miss(tier, tokens) -> int:
    """Tokens hit after at most one failed load; a second failure is an error."""
    try:
        return hit(tier, tokens)
    except Missing:
        return hit(tier, tokens)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    fill(folder)[0].close()
    return folder


def copy_of(template, folder):
    """As another run of the program finds it."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for source in (template / "index.sqlite", *run_files(template)):
        (folder / source.relative_to(template)).write_bytes(source.read_bytes())
    return run_files(folder)[0]


@pytest.mark.report("S44")
@settings(max_examples=40)
@given(data=st.data())
def test_any_byte_of_a_run_file_flipped(tmp_path_factory, template, data):
    folder = tmp_path_factory.mktemp("flipped")
    path = copy_of(template, folder)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    if data.draw(st.booleans(), label="index deleted too"):
        (folder / "index.sqlite").unlink()
    tier, tokens = tier_of(folder), prompt(16)
    assert load_or_miss(tier, tokens) == 0
    assert not path.exists()
    run = run_of(tokens)
    assert tier.put(run, views_of(run)).num_blocks == 4  # the poison is gone: it can be stored anew
    assert hit(tier, tokens) == 16
    tier.check_integrity()
    tier.close()


@settings(max_examples=40)
@given(data=st.data())
def test_any_byte_of_the_index_flipped(tmp_path_factory, template, data):
    folder = tmp_path_factory.mktemp("flipped")
    copy_of(template, folder)
    index = folder / "index.sqlite"
    content = bytearray(index.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    index.write_bytes(content)
    tier, tokens = tier_of(folder), prompt(16)
    assert load_or_miss(tier, tokens) in (0, 4, 8, 12, 16)
    run = run_of(tokens)
    tier.put(run, views_of(run))
    load_or_miss(tier, tokens)
    tier.close()


@pytest.mark.report("S44")
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.99])
def test_a_truncated_file_is_a_miss(tmp_path, share):
    _, tokens = fill(tmp_path)
    path = run_files(tmp_path)[0]
    os.truncate(path, int(path.stat().st_size * share))
    assert hit(tier_of(tmp_path), tokens) == 0  # seen before anything is promised
    assert run_files(tmp_path) == []
    with_others, other = fill(tmp_path, seed=1)
    blocks = stored_blocks(with_others, other)
    path = run_files(tmp_path)[0]
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(Missing):  # seen while it is read
        load(with_others, blocks)
    assert hit(with_others, other) == 0


@pytest.mark.report("S50")
def test_a_file_deleted_under_a_running_process_is_a_miss_and_the_rest_stays(tmp_path, caplog):
    tier, tokens = fill(tmp_path)
    _, other = fill(tmp_path, seed=1)
    run_files(tmp_path)[0].unlink()
    hits = [hit(tier, tokens), hit(tier, other)]
    assert sorted(hits) == [0, 16]
    assert tier.remove(run_of(tokens).keys) + tier.remove(run_of(other).keys) == 4
    assert caplog.records == []


@pytest.mark.report("S50")
def test_a_file_deleted_between_runs_is_dropped(tmp_path):
    tier, tokens = fill(tmp_path)
    tier.close()
    run_files(tmp_path)[0].unlink()
    tier = tier_of(tmp_path)
    tier.check_integrity()
    assert hit(tier, tokens) == 0


def test_a_deleted_index_is_made_anew_even_under_a_running_process(tmp_path):
    tier, tokens = fill(tmp_path)
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    assert hit(tier, tokens) == 16
    assert hit(tier_of(tmp_path), tokens) == 16
    tier.check_integrity()


def test_a_damaged_index_is_moved_aside_with_one_warning(tmp_path, caplog):
    tier, tokens = fill(tmp_path)
    tier.close()
    (tmp_path / "index.sqlite").write_bytes(b"no database at all" * 1000)
    with caplog.at_level(logging.WARNING):
        assert hit(tier_of(tmp_path), tokens) == 16
    assert len(caplog.records) == 1 and "made anew" in caplog.text
    assert (tmp_path / "index.damaged.sqlite").exists()


def test_an_index_that_breaks_while_it_is_used_is_made_anew(tmp_path, caplog):
    tier, tokens = fill(tmp_path, num_tokens=400)
    tier._index.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index = tmp_path / "index.sqlite"
    with index.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (index.stat().st_size - 4096))
    later = tier_of(tmp_path)
    for _ in range(3):
        found = load_or_miss(later, tokens)
    assert found == 400
    assert "damaged" in caplog.text


def test_damage_is_told_once(tmp_path, caplog):
    tier = tier_of(tmp_path)
    for seed in range(3):
        run = run_of(prompt(8, seed))
        tier.put(run, views_of(run))
    for path in run_files(tmp_path):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    for seed in range(3):
        assert load_or_miss(tier, prompt(8, seed)) == 0
    assert len(caplog.records) == 1 and "checksum" in caplog.text
    assert tier.num_failures == 3


def test_an_index_with_the_wrong_place_is_found_out_by_the_file(tmp_path):
    tier, tokens = fill(tmp_path)
    with tier._index.write() as connection:
        connection.execute("UPDATE blocks SET position = position + 100")
        connection.execute("UPDATE blocks SET position = 3 - (position - 100)")
    with pytest.raises(Missing, match="does not hold the block"):
        hit(tier, tokens)


def test_an_index_with_other_tokens_is_found_out_by_the_file(tmp_path):
    tier, tokens = fill(tmp_path)
    other = prompt(16, seed=7)
    with tier._index.write() as connection:
        for position in range(4):
            connection.execute(
                "UPDATE blocks SET tokens = ? WHERE position = ?",
                (other[4 * position : 4 * position + 4].tobytes(), position),
            )
    places = tier.contains(run_of(tokens).keys, other.reshape(4, 4))
    assert len(places) == 4
    blocks = [StoredBlock(key, 4, "disk", at) for key, at in zip(run_of(tokens).keys, places)]
    with pytest.raises(Missing, match="other tokens"):
        load(tier, blocks)


@pytest.mark.report("S71")
def test_a_pickle_in_place_of_a_run_is_not_run(tmp_path):
    import pickle

    marker = tmp_path / "marker"

    class Evil:
        def __reduce__(self):
            return (marker.write_text, ("ran",))

    folder = tmp_path / "cache"
    tier, tokens = fill(folder)
    path = run_files(folder)[0]
    path.write_bytes(pickle.dumps(Evil()).ljust(path.stat().st_size, b"\0"))
    assert load_or_miss(tier, tokens) == 0
    (folder / "runs" / ("a" * 64 + ".safetensors")).write_bytes(pickle.dumps(Evil()))
    tier_of(folder).check_integrity()
    assert not marker.exists()
