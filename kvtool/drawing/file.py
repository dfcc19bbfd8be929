"""A drawing as the file that `--plot` names."""

from __future__ import annotations

from pathlib import Path

from kvtool.drawing import png, svg
from kvtool.drawing.shapes import Shapes
from kvtool.errors import ConfigError

WRITERS = {".svg": svg.render, ".png": png.render}


def check_ending(path: Path) -> None:
    """`ConfigError` for another ending than .svg or .png: to be told before long work."""
    if path.suffix.lower() not in WRITERS:
        raise ConfigError(f"--plot {path}: the file must end in {' or '.join(WRITERS)}.")


def write_drawing(path: Path, shapes: Shapes, width: int, height: int) -> None:
    """`ConfigError` for another ending, or a folder that cannot be written."""
    check_ending(path)
    try:
        path.write_bytes(WRITERS[path.suffix.lower()](shapes, width, height))
    except OSError as error:
        raise ConfigError(f"--plot {path} cannot be written: {error.strerror}.") from error
