"""Progress of a count: how many of how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvtool.cli.progress import frequent_progress


@contextmanager
def counted_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields what takes (done, total)."""
    with frequent_progress(title) as say:
        yield lambda done, total: say(f"{title}: {done:,} of {total:,}")
