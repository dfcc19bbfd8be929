"""--check: what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from inspection.small_cache import encode, put

from kvtool.inspection.check import check
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import Totals


def run_file(folder: Path, key: str) -> Path:
    (path,) = [path for path in folder.rglob("*") if path.stem == key]
    return path


def test_a_clean_cache(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"))
    put(catalog, encode("xyz"))
    seen: list[tuple[int, int]] = []
    report = check(catalog, lambda done, total: seen.append((done, total)))
    assert (report.ok, report.checked, report.damaged, report.unreachable) == (True, 2, (), 0)
    assert seen[-1][0] == seen[-1][1]


def test_a_flipped_byte(catalog: Catalog, tmp_path: Path) -> None:
    good, bad = put(catalog, encode("abcd")), put(catalog, encode("xyzw"))
    path = run_file(tmp_path, bad.key)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    report = check(catalog)
    assert (report.ok, report.checked) == (False, 2)
    (damage,) = report.damaged
    assert bad.key in damage["file"] and good.key not in damage["file"]
    assert damage["reason"] and not damage["reason"].endswith(".")


def test_a_file_that_is_gone(catalog: Catalog, tmp_path: Path) -> None:
    entry = put(catalog, encode("abcd"))
    run_file(tmp_path, entry.key).unlink()
    assert [entry.key in damage["file"] for damage in check(catalog).damaged] == [True]


def test_runs_without_a_head_are_told_and_no_damage(catalog: Catalog) -> None:
    put(catalog, encode("abcdefgh"), first_block=1)
    report = check(catalog)
    assert (report.ok, report.unreachable) == (True, 1)


@pytest.mark.report("S31")
def test_sums_are_verified(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    put(catalog, encode("abcdefgh"))
    right = catalog.totals()
    wrong: Totals = right._replace(bytes=right.bytes - 1, blocks=9)
    monkeypatch.setattr(type(catalog), "totals", lambda self: wrong)
    report = check(catalog)
    assert not report.ok
    assert [damage["reason"] for damage in report.damaged] == [
        "it counts 9 blocks, its runs are 2",
        f"it counts {right.bytes - 1} bytes, its runs are {right.bytes}",
    ]
