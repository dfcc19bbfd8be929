"""The page in a real browser: light, dark, on paper, and alone in the world."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import chromium_browser as chromium
import pytest
from report.replayed import TRACES, simulated

from kvtool.config import EngineConfig
from kvtool.report.charts.palette import PALETTE
from kvtool.report.html import write_report
from kvtool.simulation.document import document

pytestmark = chromium.needed


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"capacities": (40, 90), "engine": EngineConfig(kv_blocks=90)}
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(document(simulated(TRACES / "append.jsonl", advice=False, **options)), path)
    return path


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_and_its_charts_follow_the_colour_scheme(theme: str, page: Path, tmp_path: Path) -> None:
    """The page cut down to its first chart, which is of one cause mostly."""
    text = page.read_text()
    only = "body > :not(main), main > :not(#misses), #misses > :not(figure) { display: none }"
    alone = tmp_path / "chart.html"
    alone.write_text(text.replace("</style>", f"{only}</style>", 1))
    shot = tmp_path / "shot.png"
    chromium.run(
        alone, tmp_path, f"--screenshot={shot}", *(chromium.DARK if theme == "dark" else ())
    )
    colours = chromium.colours(shot)
    assert colours[0] == rgb(getattr(PALETTE["paper"], theme))
    assert len(colours) > 20, "the page is blank"
    assert rgb(getattr(PALETTE["first_sight"], theme)) in colours


def test_it_prints(page: Path, tmp_path: Path) -> None:
    """In the colours of paper, whatever the screen has."""
    pdf = tmp_path / "report.pdf"
    chromium.run(page, tmp_path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer", *chromium.DARK)
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF-") and len(data) > 20_000
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 2


class _Witness(BaseHTTPRequestHandler):
    """Notes who asks."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def witness() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and what it is asked for."""
    seen: list[str] = []
    handler = type("Witness", (_Witness,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_its_tables_are_there_and_nothing_is_asked_for(
    page: Path, tmp_path: Path, witness: tuple[str, list[str]]
) -> None:
    """As the browser has the page. A page that asks is seen to."""
    log, address = tmp_path / "net.json", witness[0]
    dom = chromium.run(page, tmp_path, f"--log-net-log={log}", "--dump-dom")
    assert dom.count("<table>") >= 10 and dom.count("<svg") >= 5
    assert "Missed tokens by cause" in dom and "Sessions, those that computed most first" in dom
    assert chromium.requested(log) == set()
    asks = tmp_path / "asks.html"
    asks.write_text(f'<img src="{address}/img">')
    chromium.run(asks, tmp_path, f"--log-net-log={log}", "--dump-dom")
    assert chromium.requested(log) == {f"{address}/img"}


def test_its_policy_stops_what_somebody_puts_in(
    page: Path, tmp_path: Path, witness: tuple[str, list[str]]
) -> None:
    """Without the policy the same page does ask: the witness is no blind one."""
    address, seen = witness
    loads = f'<img src="{address}/img"><link rel="stylesheet" href="{address}/css">'
    loads += f'<script src="{address}/js"></script><script>document.title = "ran"</script>'
    text = page.read_text().replace("</main>", f"{loads}</main>", 1)
    guarded, open_page = tmp_path / "guarded.html", tmp_path / "open.html"
    guarded.write_text(text)
    open_page.write_text(text.replace("Content-Security-Policy", "Nothing", 1))
    assert "<title>ran" not in chromium.run(guarded, tmp_path, "--dump-dom")
    assert seen == []
    assert "<title>ran" in chromium.run(open_page, tmp_path, "--dump-dom")
    assert set(seen) == {"/img", "/css", "/js"}
