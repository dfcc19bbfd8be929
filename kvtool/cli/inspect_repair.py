"""`--repair-index`: make the index anew from the files, without those that are damaged."""

from __future__ import annotations

from pathlib import Path

from kvtool.cli.inspect_consent import ask
from kvtool.cli.inspect_progress import counted_progress
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.inspect_text import count
from kvtool.cli.output import write, write_json
from kvtool.cli.printable import printable
from kvtool.config import EngineConfig
from kvtool.tiers.disk.repair import repair_index


def repair(folder: Path, request: InspectRequest, engine: EngineConfig) -> None:
    """Works on a folder whose index no longer opens as well."""
    ask(request, "make the index anew and remove damaged files")
    with counted_progress("Repairing") as progress:
        repaired = repair_index(folder, progress)
    if request.format == "json":
        dropped = [damage._asdict() for damage in repaired.dropped]
        write_json({"action": "repair-index", "kept": repaired.kept, "dropped": dropped})
        return
    for damage in repaired.dropped:
        write(f"dropped {printable(damage.file)}: {printable(damage.reason)}\n")
    write(f"{count(repaired.kept, 'run')} kept, {len(repaired.dropped):,} dropped\n")
