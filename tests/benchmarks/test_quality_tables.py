"""The tables of docs/reuse.md are those of the committed rows."""

from pathlib import Path

from benchmarks.quality.tables import tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_of_the_newest_rows() -> None:
    page = (ROOT / "docs" / "reuse.md").read_text()
    for table in tables("SmolLM2-135M-Instruct.Q4_1.gguf"):
        assert table in page
