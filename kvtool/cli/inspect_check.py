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


def show_check(catalog: Catalog, request: InspectRequest, engine: EngineConfig) -> None:
    """Raises `typer.Exit` with the code of `CacheError` for damage, after the report."""
    with counted_progress("Checking") as progress:
        report = check(catalog, progress)
    if request.format == "json":
        write_json(report)
    else:
        write("".join(f"{line}\n" for line in check_lines(report)))
    if not report.ok:
        fail_after_report(
            CacheError(
                f"{count(len(report.damaged), 'thing')} in the cache folder "
                f"{'is' if len(report.damaged) == 1 else 'are'} damaged.",
                hint="kvtool inspect-cache --repair-index drops what is damaged and keeps the rest; "
                "until then it is a miss, never a wrong answer. A file that is not the cache's is "
                "yours to move away.",
            )
        )


def check_lines(report: CheckReport) -> Iterator[str]:
    for damage in report.damaged:
        yield f"{printable(damage['file'])}: {printable(damage['reason'])}"
    verdict = "all is well" if report.ok else count(len(report.damaged), "finding")
    yield f"{count(report.checked, 'run')} checked, {verdict}"
    if report.unreachable:
        runs = count(report.unreachable, "run")
        yield f"{runs} cannot be found: what stands in front is not stored (see --tree)"
