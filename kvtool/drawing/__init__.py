"""Charts without an imaging library: a few shapes, written as PNG or SVG."""
