"""`kvtool generate`: options in, a reply out. The work is in `generation` and `batch`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.engine_options import ENGINE
from kvtool.cli.option_groups import option_groups
from kvtool.cli.options import OUTPUT, FormatOption, option
from kvtool.cli.parsers import non_empty
from kvtool.cli.prompt_options import (
    PROMPT,
    FileOption,
    MessagesOption,
    RawOption,
    SystemOption,
)
from kvtool.cli.sampling_options import SAMPLING_GROUP, MaxTokensOption
from kvtool.config import EngineConfig
from kvtool.engine.sampling import SamplingParams

EXAMPLES = (
    'kvtool generate "What is the capital of France?"',
    'kvtool generate "What is the capital of France?" --max-tokens 16 --format json',
    'kvtool generate --file examples/notes.md "Summarise this." --max-tokens 24 --stats',
    "echo 'The sky is' | kvtool generate - --raw --max-tokens 8",
    "kvtool generate --messages examples/chat.json --max-tokens 16 --verify",
    "kvtool generate --batch examples/batch.jsonl --max-tokens 8 --stats",
)

PromptArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT",
        help="Text of the user, behind the files; - is stdin.",
        rich_help_panel=PROMPT,
    ),
]
AppendOption = Annotated[
    bool,
    option(
        PROMPT,
        "--append",
        help="Write PROMPT and the reply, with its token ids, to --messages; a new file is begun. "
        "The next turn continues on them and finds its KV in the cache.",
    ),
]
BatchOption = Annotated[
    str | None,
    option(
        PROMPT,
        "--batch",
        parser=non_empty,
        metavar="FILE",
        help="One request a line, JSON Lines out; - is stdin.",
    ),
]
StatsOption = Annotated[
    bool, option(OUTPUT, "--stats", help="Times, hit rate and blocks, as a table on stderr.")
]
VerifyOption = Annotated[
    bool, option(OUTPUT, "--verify", help="Compute again without reuse; exit 6 if it differs.")
]


@option_groups(sampling=SAMPLING_GROUP, engine=ENGINE)
def generate(
    prompt: PromptArgument = None,
    *,
    file: FileOption = None,
    messages: MessagesOption = None,
    append: AppendOption = False,
    system: SystemOption = None,
    raw: RawOption = False,
    batch: BatchOption = None,
    max_tokens: MaxTokensOption = None,
    sampling: SamplingParams,
    engine: EngineConfig,
    stats: StatsOption = False,
    verify: VerifyOption = False,
    format: FormatOption = "human",
) -> None:
    """Answer a prompt. Greedy unless --temperature is given, so runs repeat."""
    from kvtool.cli.event_target import check_event_file, check_not_cache
    from kvtool.cli.loading import open_runtime  # here, because help needs none of this
    from kvtool.cli.prompt import check_sources, read_prompt
    from kvtool.cli.results import View
    from kvtool.cli.text import STDIN
    from kvtool.cli.transcript import Transcript

    check_sources(
        prompt, file, messages=messages, append=append, raw=raw, system=system, batch=batch
    )
    stdin = [STDIN] * (prompt == STDIN)
    check_event_file(engine, [*stdin, *(file or ()), messages, batch])
    check_not_cache(engine, "--messages", messages if append else None)
    view = View(format=format, stats=stats, verify=verify)
    if batch is not None:
        from kvtool.cli.batch_input import read_batch

        lines = read_batch(batch)
        from kvtool.cli.batch import run_batch

        with open_runtime(engine) as runtime:
            run_batch(runtime, lines, sampling, raw=raw, view=view, max_tokens=max_tokens)
        return
    asked = read_prompt(prompt, file or (), system) if prompt is not None or file else []
    transcript = None
    if messages is not None:
        read = Transcript.to_append if append else Transcript.read
        transcript = read(messages, may_be_empty=bool(asked))
    conversation = [*(transcript.messages if transcript else ()), *asked]
    from kvtool.cli.generation import run_prompt

    with open_runtime(engine) as runtime:
        run_prompt(
            runtime,
            conversation,
            sampling,
            raw=raw,
            view=view,
            max_tokens=max_tokens,
            transcript=transcript if append else None,
        )
