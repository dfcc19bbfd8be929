"""The heat map: cells where they belong, colours in order, readable in both formats."""

from __future__ import annotations

import itertools
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kvtool.drawing.colour_scale import RAMP, ColourScale
from kvtool.drawing.dot_font import GLYPHS
from kvtool.drawing.shapes import Label, Rectangle
from kvtool.errors import ConfigError
from kvtool.inspection.heat_map import BROKEN, WIDTH, Panel, heat_map, panels_of, write_heat_map
from kvtool.inspection.kv_statistics import KVStatistics, PositionNorms
from kvtool.inspection.kv_sums import position_bins

TITLE = "llama: 100 tokens in 7 blocks"


def statistics(
    num_layers: int = 6, num_positions: int = 100, parts: tuple[str, ...] = ("key", "value")
) -> KVStatistics:
    """Layer 4 is ten times the others, position 0 a tenth; bins 1 and 2 have no tokens."""
    edges = position_bins(num_positions)
    norms = np.full((num_layers, len(edges) - 1), 8.0)
    norms[4] *= 10
    norms[:, 0] /= 10
    norms[:, 1:3] = np.nan
    broken = np.zeros(norms.shape, dtype=bool)
    broken[2, min(4, len(edges) - 2)] = True
    return KVStatistics(
        num_tokens=num_positions,
        num_blocks=7,
        parts=(),
        edges=tuple(edges.tolist()),
        positions=tuple(
            PositionNorms(part=part, norms=norms, broken=broken & (part == parts[-1]))
            for part in parts
        ),
        unreadable=(),
    )


def colours_of_cells(shown: KVStatistics, number: int) -> dict[tuple[int, int], str]:
    """By (layer, column) of panel `number`."""
    panel = panels_of(shown)[number]
    drawn = {(s.left, s.top): s.colour for s in heat_map(shown, "") if isinstance(s, Rectangle)}
    places = itertools.product(range(panel.num_rows), range(panel.num_columns))
    cells = {place: panel.cell(*place, "") for place in places}
    return {place: drawn[c.left, c.top] for place, c in cells.items() if (c.left, c.top) in drawn}


def test_sink_and_outlier_layer_stand_out() -> None:
    cells = colours_of_cells(statistics(), 0)
    scale = ColourScale(0.8, 80.0)
    assert cells[0, 0] == RAMP[0] == scale.colour(0.8)
    assert cells[4, 7] == RAMP[-1] == scale.colour(80.0)
    assert cells[0, 7] == cells[4, 0] == scale.colour(8.0)
    assert not {column for _, column in cells} & {1, 2}
    assert BROKEN not in cells.values()
    broken = [place for place, c in colours_of_cells(statistics(), 1).items() if c == BROKEN]
    assert broken == [(2, 4)]


def test_lightness_falls_steadily() -> None:
    scale = ColourScale(0.5, 200.0)
    numbers = [scale.number(step / 100) for step in range(101)]
    assert numbers == sorted(numbers)
    assert [scale.share(number) for number in numbers] == pytest.approx(
        [step / 100 for step in range(101)]
    )
    light = [lightness(scale.colour(number)) for number in numbers]
    assert light == sorted(light, reverse=True)
    assert light[0] - light[-1] > 200
    assert scale.colour(0) == RAMP[0]
    assert scale.colour(1e9) == RAMP[-1]
    assert ColourScale(3.0, 3.0).colour(3.0) == RAMP[0]


def lightness(colour: str) -> float:
    """Rec. 709 luma, 0 to 255."""
    red, green, blue = bytes.fromhex(colour[1:])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("num_layers", [6, 32, 126])
@pytest.mark.parametrize("num_positions", [1, 5, 3000, 1 << 20])
def test_labels_are_within_the_drawing_and_apart(num_layers: int, num_positions: int) -> None:
    shown = statistics(num_layers, num_positions)
    height = panels_of(shown)[0].bottom + 170
    labels = [s for s in heat_map(shown, TITLE) if isinstance(s, Label)]
    spans = sorted((label.y, *span(label)) for label in labels)
    assert all(left >= 0 and right <= WIDTH and 0 < y < height for y, left, right in spans)
    for (y, _, right), (other_y, left, _) in itertools.pairwise(spans):
        assert y != other_y or right < left, "two labels overlap"
    texts = {label.text for label in labels}
    assert {TITLE, "key: mean norm of a head", "layer", "position", "log scale"} <= texts
    assert {"0", "NaN or Inf", "0.8"} <= texts
    assert not {letter for text in texts for letter in text.upper()} - set(GLYPHS)


def span(label: Label) -> tuple[float, float]:
    """Left and right end in the dot font, the wider of the two."""
    width = 12 * len(label.text)
    left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
    return left, left + width


def test_png(tmp_path: Path) -> None:
    shown = statistics()
    write_heat_map(tmp_path / "map.png", shown, TITLE)
    rows = pixels(tmp_path / "map.png")
    scale = ColourScale(0.8, 80.0)
    for number, panel in enumerate(panels_of(shown)):
        for (row, column), norm in np.ndenumerate(shown.positions[number].norms):
            expected = "#ffffff" if np.isnan(norm) else scale.colour(float(norm))
            if shown.positions[number].broken[row, column]:
                expected = BROKEN
            assert corner_colours(rows, panel, row, column) == {expected}


def pixels(path: Path) -> list[bytes]:
    """Rows of RGB bytes."""
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert width == WIDTH
    start = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    content = zlib.decompress(data[start + 4 : start + 4 + length])
    stride = 1 + 3 * width
    assert len(content) == stride * height
    return [content[y * stride + 1 : (y + 1) * stride] for y in range(height)]


def corner_colours(rows: list[bytes], panel: Panel, row: int, column: int) -> set[str]:
    """Just inside the four corners of a cell; the axes touch the outermost pixel."""
    cell = panel.cell(row, column, "")
    xs, ys = (int(cell.left) + 1, int(cell.right) - 2), (int(cell.top), int(cell.bottom) - 2)
    return {"#" + rows[y][3 * x : 3 * x + 3].hex() for x in xs for y in ys}


def test_svg(tmp_path: Path) -> None:
    shown = statistics(parts=("latent", "rope"))
    write_heat_map(tmp_path / "map.svg", shown, "a < b & c")
    root = ElementTree.parse(tmp_path / "map.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "a < b & c" in texts
    assert {"latent: mean norm of a head", "rope: mean norm of a head"} <= set(texts)
    fills = [e.get("fill") for e in root.iter() if e.tag.endswith("rect")]
    num_cells = 6 * (len(shown.edges) - 1 - 2)
    assert len(fills) == 1 + 2 * (num_cells + 64) + 1  # background, cells, scales, NaN or Inf
    assert fills.count(BROKEN) == 2


def test_nothing_but_zeros(tmp_path: Path) -> None:
    shown = statistics()
    shown.positions[0].norms[:] = 0
    write_heat_map(tmp_path / "map.png", shown, TITLE)
    assert set(colours_of_cells(shown, 0).values()) == {RAMP[0]}


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.svg or \.png"):
        write_heat_map(tmp_path / "map.pdf", statistics(), TITLE)
