"""What takes long, said on stderr: by a spinner on a terminal, elsewhere by a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvtool.cli import output
from kvtool.cli.printable import printable

Say = Callable[[str], None]

INTERVAL_S = 5.0


@contextmanager
def progress(title: str) -> Iterator[Say]:
    """For a line before each long task. A spinner leaves no trace."""
    if not output.is_fancy_stderr():
        yield output.talk
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(title) as status:
        yield lambda line: status.update(Text(printable(line)))


@contextmanager
def frequent_progress(title: str) -> Iterator[Say]:
    """For lines that come often: off a terminal one is shown each `INTERVAL_S`, none before."""
    with progress(title) as say:
        yield say if output.is_fancy_stderr() else _paced(say)


def _paced(say: Say) -> Say:
    due = time.monotonic() + INTERVAL_S

    def say_when_due(line: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + INTERVAL_S
            say(line)

    return say_when_due
