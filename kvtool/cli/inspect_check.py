"""`--check`: read and verify everything; damage ends with the exit code of `CacheError`."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.cli.boundary import fail_after_report
from kvtool.cli.inspect_progress import counted_progress
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.config import EngineConfig
from kvtool.errors import CacheError
from kvtool.inspection.check import CheckReport, check
from kvtool.tiers.disk.catalog import Catalog
from kvtool.tiers.disk.entry import FOREIGN


def show_check(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Raises `typer.Exit` with the code of `CacheError` for damage, after the report."""
    with counted_progress("Checking") as progress:
        report = check(catalog, progress)
    if request.format == "json":
        write_json(report)
    else:
        write("".join(f"{line}\n" for line in check_lines(report)))
    if not report.ok:
        damaged = _num_damaged(report)
        fail_after_report(
            CacheError(
                f"{count(damaged, 'thing')} in the cache folder "
                f"{'is' if damaged == 1 else 'are'} damaged.",
                hint="kvtool inspect-cache --repair-index drops what is damaged and keeps the rest; "
                "until then it is a miss, never a wrong answer.",
            )
        )


def check_lines(report: CheckReport) -> Iterator[str]:
    for damage in report.damaged:
        yield f"{printable(damage['file'])}: {printable(damage['reason'])}"
    verdict = "all is well" if report.ok else count(_num_damaged(report), "finding")
    yield f"{count(report.checked, 'run')} checked, {verdict}"
    if report.unreachable:
        runs = count(report.unreachable, "run")
        yield f"{runs} cannot be found: what stands in front is not stored (see --tree)"


def _num_damaged(report: CheckReport) -> int:
    """Files that are not the cache's are named and do not count."""
    return sum(damage["reason"] != FOREIGN for damage in report.damaged)
