"""A real browser without a window. Tests that need one are marked `chromium_browser.needed`: without
Chromium they are skipped, or fail if KVTOOL_REQUIRE_CHROMIUM is set."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=700,420"),
)
PATIENCE_S = 120.0
BINARY = next((path for name in NAMES if (path := shutil.which(name))), None)

needed = pytest.mark.skipif(
    BINARY is None and "KVTOOL_REQUIRE_CHROMIUM" not in os.environ, reason="no Chromium"
)


def run(page: Path, workplace: Path, *flags: str) -> str:
    """What it prints for a page on disk; workplace: for its profile."""
    assert BINARY is not None, f"none of {', '.join(NAMES)} is there"
    profile = f"--user-data-dir={workplace / 'profile'}"
    done = subprocess.run(
        [BINARY, *FLAGS, profile, "--virtual-time-budget=3000", *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout


def requested(log: Path) -> set[str]:
    """Addresses that a net log says a page on disk asked for; the browser asks for some itself."""
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    return {
        event["url"]
        for event in events
        if "url" in event and event.get("network_isolation_key", "").startswith("file:")
    }


def colours(png: Path) -> list[tuple[int, ...]]:
    """The distinct colours of a screenshot, most frequent first."""
    data = png.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(_chunks(data, b"IDAT")))
    rows = _unfiltered(raw, width * channels, height, channels)
    counts: dict[tuple[int, ...], int] = {}
    for row in rows[::8]:
        for x in range(0, len(row), 4 * channels):
            colour = tuple(row[x : x + 3])
            counts[colour] = counts.get(colour, 0) + 1
    return sorted(counts, key=lambda colour: -counts[colour])


def _chunks(data: bytes, name: bytes) -> Any:
    place = 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == name:
            yield data[place + 8 : place + 8 + length]
        place += 12 + length


def _unfiltered(raw: bytes, stride: int, height: int, channels: int) -> list[bytearray]:
    """PNG filters 0 to 4 undone (ISO/IEC 15948, 9)."""
    rows, above = [], bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for x in range(stride):
            left = row[x - channels] if x >= channels else 0
            corner = above[x - channels] if x >= channels else 0
            guess = (0, left, above[x], (left + above[x]) // 2, _paeth(left, above[x], corner))
            row[x] = (row[x] + guess[kind]) & 255
        rows.append(row)
        above = row
    return rows


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))
