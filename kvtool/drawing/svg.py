"""A drawing as SVG text."""

from __future__ import annotations

from xml.sax.saxutils import escape

from kvtool.drawing.shapes import Line, Rectangle, Shape, Shapes


def render(shapes: Shapes, width: int, height: int) -> bytes:
    body = "\n".join(_element(shape) for shape in shapes)
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="14">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
    return text.encode()


def _element(shape: Shape) -> str:
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        return (
            f'<polyline points="{points}" fill="none" stroke="{shape.colour}" '
            f'stroke-width="{shape.width}"/>'
        )
    if isinstance(shape, Rectangle):
        width, height = shape.right - shape.left, shape.bottom - shape.top
        return (
            f'<rect x="{shape.left:.1f}" y="{shape.top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="{shape.colour}" shape-rendering="crispEdges"/>'
        )
    return (
        f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}" '
        f'dominant-baseline="middle" fill="{shape.colour}">{escape(shape.text)}</text>'
    )
