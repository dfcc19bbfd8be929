"""A drawing as PNG, without an imaging library: RGB rows, zlib, and a 5 x 7 dot font.

PNG specification (ISO/IEC 15948): signature, IHDR, IDAT with one filter byte a row, IEND.
"""

from __future__ import annotations

import struct
import zlib

from kvtool.drawing.dot_font import GLYPHS
from kvtool.drawing.shapes import Label, Line, Rectangle, Shapes

SCALE = 2  # pixels a dot
GLYPH_WIDTH, GLYPH_HEIGHT = 6 * SCALE, 7 * SCALE  # one dot of space between letters


class Canvas:
    """Pixels, row by row; what lies outside is not drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.pixels = bytearray(b"\xff" * (3 * width * height))

    def fill(self, left: int, top: int, right: int, bottom: int, colour: bytes) -> None:
        left, right = max(0, left), min(self.width, right)
        for row in range(max(0, top), min(self.height, bottom)):
            if left < right:
                start = 3 * (row * self.width + left)
                self.pixels[start : start + 3 * (right - left)] = colour * (right - left)

    def square(self, x: int, y: int, size: int, colour: bytes) -> None:
        self.fill(x, y, x + size, y + size, colour)

    def png(self) -> bytes:
        stride = 3 * self.width
        rows = (self.pixels[i : i + stride] for i in range(0, len(self.pixels), stride))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        data = zlib.compress(b"".join(b"\0" + row for row in rows))
        chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def render(shapes: Shapes, width: int, height: int) -> bytes:
    canvas = Canvas(width, height)
    for shape in shapes:
        if isinstance(shape, Line):
            _draw_line(canvas, shape)
        elif isinstance(shape, Rectangle):
            left, top, right, bottom = shape.left, shape.top, shape.right, shape.bottom
            colour = _rgb(shape.colour)
            canvas.fill(round(left), round(top), round(right), round(bottom), colour)
        else:
            _draw_label(canvas, shape)
    return canvas.png()


def _draw_line(canvas: Canvas, line: Line) -> None:
    colour, half = _rgb(line.colour), line.width // 2
    for (x0, y0), (x1, y1) in zip(line.points, line.points[1:]):
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            canvas.square(round(x) - half, round(y) - half, line.width, colour)


def _draw_label(canvas: Canvas, label: Label) -> None:
    width = GLYPH_WIDTH * len(label.text)
    offset = {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    left, top = round(label.x - offset), round(label.y) - GLYPH_HEIGHT // 2
    for position, letter in enumerate(label.text.upper()):
        rows = GLYPHS.get(letter, GLYPHS["?"])
        for y, row in enumerate(rows):
            for x in range(5):
                if row >> (4 - x) & 1:
                    at = left + position * GLYPH_WIDTH + x * SCALE
                    canvas.square(at, top + y * SCALE, SCALE, _rgb(label.colour))


def _rgb(colour: str) -> bytes:
    return bytes.fromhex(colour.removeprefix("#"))


def _chunk(name: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(name + body)
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", checksum)
