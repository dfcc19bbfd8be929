"""What a folder of ours has to hold: name, size and sha256 of every file in it.

A damaged file is found at the next start and not at the first wrong answer. Contents are hashed
again only when `digest.file_digest` sees that a file changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.models.digest import Progress, file_digest, remember

RECORD = "kvtool.json"


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """List the files of `folder` in its record, beside what the caller says `about` it."""
    files = {
        file.name: {"size": file.stat().st_size, "sha256": file_digest(file)}
        for file in sorted(folder.iterdir())
    }
    (folder / RECORD).write_text(json.dumps({**about, "files": files}, indent=2), "utf-8")


def moved(folder: Path) -> None:
    """The folder got its final name: what was hashed under the former one stays known."""
    for name, entry in _read(folder)["files"].items():
        remember(folder / name, entry["sha256"])


def fault(folder: Path, about: Mapping[str, Any], progress: Progress | None = None) -> str | None:
    """Why `folder` is not what `write_manifest(folder, about)` described; `None`: it is."""
    try:
        record = _read(folder)
        if {key: value for key, value in record.items() if key != "files"} != about:
            return f"{RECORD} is of another version"
        files: dict[str, Any] = record["files"]
        for name in sorted({file.name for file in folder.iterdir()} ^ {RECORD, *files}):
            return f"{name} is {'missing' if name in files else 'not part of it'}"
        for name, entry in files.items():
            if (folder / name).stat().st_size != entry["size"]:
                return f"{name} has another size"
            if file_digest(folder / name, progress) != entry["sha256"]:
                return f"{name} has other contents"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"{RECORD} or a file it lists cannot be read ({type(error).__name__})"
    return None


def _read(folder: Path) -> dict[str, Any]:
    record = json.loads((folder / RECORD).read_text("utf-8"))
    return dict(record)
