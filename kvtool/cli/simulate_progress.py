"""How far a simulation is: a bar on a terminal, elsewhere a line now and then, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvtool.cli import output
from kvtool.cli.printable import printable
from kvtool.cli.progress import frequent_progress

# (what is going on, how much of it is done, of how much)
Progress = Callable[[str, int, int], None]


@contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A bar leaves no trace."""
    if not output.is_fancy_stderr():
        with frequent_progress(title) as say:
            yield lambda part, done, total: say(f"{part}: {done:,} of {total:,}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    console = Console(stderr=True)
    with Progress(*columns, MofNCompleteColumn(), console=console, transient=True) as drawn:
        task = drawn.add_task(title, total=None)

        def show(part: str, done: int, total: int) -> None:
            drawn.update(task, description=printable(part), completed=done, total=total)

        yield show
