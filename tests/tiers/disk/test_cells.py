"""An index whose cells are of another type or out of range: told, set aside, made anew."""

import logging
import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from tiers.disk.disk_runs import hit, prompt, run_of, tier_of, views_of

from kvtool.errors import CacheError
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.repair import repair_index

BLOB, NO_UTF8 = "x'00ff'", "CAST(x'66ff' AS TEXT)"
LARGEST, INFINITY = str(2**63 - 1), "9e999"
NUMBER = ["'x'", "''", BLOB, "-1", "1.5", LARGEST, INFINITY]
SIZE = [*NUMBER, "0"]
FLAG = [*NUMBER, "2"]
TIME = ["'x'", BLOB, INFINITY, f"-{INFINITY}"]
TEXT = [BLOB, NO_UTF8]
BYTES = ["'x'", "0", "1000000000", LARGEST, "1.5"]
DIGEST = [*BYTES, BLOB]
WRONG = {  # as SQL writes them
    "namespaces.digest": BYTES,
    "namespaces.fields": [*TEXT, "''", "-1", "'[]'", "'null'", "'{\"a\":'"],
    "runs.name": TEXT,
    "runs.namespace": BYTES,
    "runs.parent": DIGEST,
    "runs.home": NUMBER,
    "runs.block_size": SIZE,
    "runs.num_blocks": SIZE,
    "runs.num_tokens": SIZE,
    "runs.num_bytes": SIZE,
    "runs.exact": FLAG,
    "runs.provenance": TEXT,
    "runs.created": TIME,
    "runs.last_used": TIME,
    "runs.used": NUMBER,
    "runs.hits": NUMBER,
    "runs.pinned": FLAG,
    "runs.owner": TEXT,
    "blocks.position": NUMBER,
    "blocks.key": DIGEST,
    "blocks.parent": DIGEST,
    "blocks.content": DIGEST,
    "blocks.home": NUMBER,
    "blocks.tokens": [*DIGEST, "x''", "x'0000000000'"],
    "blocks.exact": FLAG,
}
TOKENS = prompt(16)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """One run of four blocks."""
    folder = tmp_path_factory.mktemp("template")
    with closing(tier_of(folder)) as tier:
        tier.put(run_of(TOKENS), views_of(run_of(TOKENS)))
    return folder


def spoiled(template, folder, statement):
    shutil.copytree(template, folder)
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)
    return folder


def columns(template):
    with closing(sqlite3.connect(template / "index.sqlite")) as connection:
        for table in ("namespaces", "runs", "blocks"):
            for row in connection.execute(f"PRAGMA table_info({table})"):
                yield f"{table}.{row[1]}"


def test_every_column_is_tried(template):
    assert set(columns(template)) - {"runs.id", "blocks.run"} == set(WRONG)  # the others: below


@pytest.mark.parametrize(
    "column, value", [(column, value) for column, values in WRONG.items() for value in values]
)
def test_a_cell_of_another_kind(template, tmp_path, caplog, column, value):
    table, name = column.split(".")
    where = "WHERE position = 1" if table == "blocks" else ""
    statement = f"UPDATE {table} SET {name} = {value} {where}"
    folder = spoiled(template, tmp_path / "cache", statement)
    with pytest.raises(CacheError, match="its index is damaged") as error:
        Catalog.open(folder)
    assert error.value.hint == f"kvtool inspect-cache {folder} --repair-index makes it anew."
    used = shutil.copytree(folder, tmp_path / "used")
    assert repair_index(folder) == (1, [])
    with closing(tier_of(used)) as tier, caplog.at_level(logging.WARNING):
        assert hit(tier, TOKENS) == 16
        tier.check_integrity()
    for path in (folder, used):
        assert (path / "index.damaged.sqlite").exists()
        with closing(Catalog.open(path)) as catalog:
            assert catalog.check() == [] and catalog.totals().tokens == 16


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET id = id + 1",
        "UPDATE blocks SET run = run + 1",
        "UPDATE blocks SET run = 'x'",
        "DELETE FROM blocks WHERE position = 3",
        "UPDATE runs SET num_blocks = 5",
        "UPDATE runs SET num_tokens = 15",
        "UPDATE runs SET block_size = 3",
    ],
)
def test_a_run_without_its_blocks(template, tmp_path, statement):
    folder = spoiled(template, tmp_path / "cache", statement)
    with pytest.raises(CacheError, match="its index is damaged"):
        Catalog.open(folder)
    assert repair_index(folder) == (1, [])
    with closing(Catalog.open(folder)) as catalog:
        assert catalog.check() == []
    assert hit(tier_of(folder), TOKENS) == 16


def test_a_cell_of_another_kind_where_nothing_can_be_written(template, tmp_path, monkeypatch):
    folder = spoiled(template, tmp_path / "cache", f"UPDATE blocks SET key = {LARGEST}")
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(CacheError, match="its index is damaged"):
        Catalog.open(folder)
    assert hit(tier_of(folder), TOKENS) == 0


@pytest.mark.parametrize(
    "value", ['{"bytes": true}', '{"bytes": -1}', f'{{"bytes": 1{"0" * 400}}}']
)
def test_a_cap_that_is_none(template, tmp_path, value):
    folder = spoiled(template, tmp_path / "cache", f"UPDATE notes SET value = '{value}'")
    with closing(Catalog.open(folder)) as catalog:
        assert catalog.totals().cap_bytes is None
        assert catalog.pin([catalog.entries()[0].key]) > 0
