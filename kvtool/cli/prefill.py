"""`kvtool prefill`: files in, their KV kept. The work is in `prefilling`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.engine_options import ENGINE
from kvtool.cli.option_groups import option_groups
from kvtool.cli.options import FormatOption, option
from kvtool.cli.parsers import non_empty
from kvtool.cli.prompt_options import PROMPT, RawOption, SystemOption
from kvtool.config import EngineConfig

EXAMPLES = (
    "kvtool prefill examples/notes.md",
    "kvtool prefill examples/notes.md examples/rivers.md --concat --format json",
    "echo 'The sky is' | kvtool prefill - --raw",
)

FilesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        parser=non_empty,
        help="Each is a prompt of its own; - is stdin.",
        rich_help_panel=PROMPT,
    ),
]
ConcatOption = Annotated[
    bool,
    option(
        PROMPT, "--concat", help="One prompt, joined by blank lines as generate joins its files."
    ),
]


@option_groups(engine=ENGINE)
def prefill(
    file: FilesArgument = None,
    *,
    concat: ConcatOption = False,
    system: SystemOption = None,
    raw: RawOption = False,
    engine: EngineConfig,
    format: FormatOption = "human",
) -> None:
    """Compute the KV of files and keep it. `generate --file` with the same files then starts from
    it, in this cache folder or remote store."""
    from kvtool.cli.event_target import check_event_file
    from kvtool.cli.loading import open_runtime  # here, because help needs none of this
    from kvtool.cli.prefill_input import check_kept, read_files

    check_kept(engine)
    check_event_file(engine, file or ())
    prompts = read_files(file or (), system, concat=concat)
    from kvtool.cli.prefilling import run_prefill

    with open_runtime(engine) as runtime:
        run_prefill(runtime, prompts, system=system, raw=raw, format=format)
