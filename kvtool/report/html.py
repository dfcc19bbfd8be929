"""`--report`: one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.report.extra import check_report_extra


def write_report(document: Mapping[str, Any], path: Path) -> None:
    """The whole page in one write, behind all the work. document: of a simulation. Raises
    `ConfigError` where the extra `report` is not installed, `OSError` from the disk."""
    check_report_extra()
    from kvtool.report.page import page

    path.write_text(page(document), encoding="utf-8")
