"""`--plot`: the drawing, and both files read back."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sizing.published import spec

from kvtool.drawing.shapes import Label, Line, Shapes
from kvtool.errors import ConfigError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.chart import CURVE, HEIGHT, LIMIT, WIDTH, shapes, write_chart
from kvtool.sizing.curve import size_curve
from kvtool.sizing.request import SizeRequest


@pytest.fixture
def drawing() -> Shapes:
    model, request = spec("Llama-3.1-8B"), SizeRequest(memory=2**30)
    curve = size_curve(model, request, calculate(model, request))
    assert curve.limit == 2**30
    assert curve.end == 8192
    assert curve.points[-1] == (10240, 10240 * 131072)
    return shapes(curve, lambda size: f"{size} B")


def test_the_curve_meets_the_memory_line_where_it_is_full(drawing: Shapes) -> None:
    limit, down = (s for s in drawing if isinstance(s, Line) and s.colour == LIMIT)
    curve = next(s for s in drawing if isinstance(s, Line) and s.colour == CURVE)
    x, y = down.points[0]
    assert limit.points[0][1] == y
    nearest = min(curve.points, key=lambda p: abs(p[0] - x))
    assert nearest[1] == pytest.approx(y, abs=4)
    texts = [s.text for s in drawing if isinstance(s, Label)]
    assert "memory for KV 1073741824 B, full at 8,192 tokens" in texts
    assert all(0 <= p[0] <= WIDTH and 0 <= p[1] <= HEIGHT for p in curve.points)


def test_svg(drawing: Shapes, tmp_path: Path) -> None:
    write_chart(tmp_path / "size.svg", drawing)
    root = ElementTree.parse(tmp_path / "size.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "tokens" in texts
    assert len([e for e in root.iter() if e.tag.endswith("polyline")]) == 9


def test_png(drawing: Shapes, tmp_path: Path) -> None:
    write_chart(tmp_path / "size.png", drawing)
    data = (tmp_path / "size.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (WIDTH, HEIGHT)
    start = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    rows = zlib.decompress(data[start + 4 : start + 4 + length])
    assert len(rows) == HEIGHT * (1 + 3 * WIDTH)
    colours = {rows[i : i + 3].hex() for y in range(HEIGHT) for i in _pixels(y)}
    assert {CURVE[1:], LIMIT[1:], "ffffff"} <= colours


def _pixels(row: int) -> range:
    start = row * (1 + 3 * WIDTH) + 1
    return range(start, start + 3 * WIDTH, 3)


def test_other_endings_and_missing_folders_are_refused(drawing: Shapes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.svg or \.png"):
        write_chart(tmp_path / "size.pdf", drawing)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_chart(tmp_path / "missing" / "size.svg", drawing)
