"""`kvtool inspect-cache`: options in, a look at stored KV out. The work is in `inspection`."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from kvtool.cli.engine_options import ENGINE
from kvtool.cli.gate_options import GATE_OPTIONS
from kvtool.cli.inspect_request import InspectRequest
from kvtool.cli.option_groups import OptionGroup, option_groups
from kvtool.cli.options import OUTPUT, FormatOption, option
from kvtool.cli.parsers import non_empty
from kvtool.cli.prompt_options import MessagesOption, RawOption, SystemOption
from kvtool.cli.text import STDIN
from kvtool.config import EngineConfig

LOOK, CHANGE = "Look (one of)", "Change (one of)"

EXAMPLES = (
    "kvtool inspect-cache",
    "kvtool inspect-cache --tree --format json",
    'kvtool inspect-cache --why "What is the capital of France?"',
    "kvtool inspect-cache --file examples/notes.md",
    "kvtool inspect-cache --check",
    "kvtool inspect-cache --gate demo --repair first:32",
    "kvtool inspect-cache --rope-check demo",
    "kvtool inspect-cache --prune unused:30d --yes",
)

TargetArgument = Annotated[
    str | None,
    typer.Argument(
        parser=non_empty,
        metavar="DIR|URL",
        help="Cache folder, or mooncake://HOST:PORT; default: KVTOOL_CACHE_DIR, else the user's.",
        rich_help_panel=LOOK,
    ),
]

_OPTION = re.compile("-[a-z]|--[a-z-]+")


def _prompt_text(text: str) -> str:
    """`--why --file F` would else ask about the text "--file"."""
    if _OPTION.fullmatch(text):
        raise ValueError(
            f"{text!r} is no PROMPT; about a file or a conversation ask without --why."
        )
    return text


def _prune_target(text: str) -> str:
    from kvtool.inspection.prune import GRAMMAR, is_prune_target

    if not is_prune_target(text):
        raise ValueError(f"{text!r} is unknown; allowed: {GRAMMAR}.")
    return text


def _hf_path(text: str) -> str:
    kind, _, path = text.partition(":")
    if kind != "hf" or path in ("", STDIN):  # a stream cannot be read or written out of order
        raise ValueError(f"{text!r} names no format and file; allowed: hf:PATH.")
    return path


def _pair(values: tuple[str, str]) -> tuple[str, str]:
    return values


def _look(*names: str, help: str, **settings: Any) -> Any:
    return option(LOOK, *names, help=help, **settings)


def _change(*names: str, help: str, **settings: Any) -> Any:
    return option(CHANGE, *names, help=help, **settings)


_REQUEST = {
    "tree": Annotated[bool, _look("--tree", help="The radix tree: who shares which prefix.")],
    "why": Annotated[
        str | None,
        _look(
            "--why",
            parser=_prompt_text,
            metavar="PROMPT",
            help="Which of its tokens hit, and why the others miss; - is stdin.",
        ),
    ],
    "file": Annotated[
        list[str] | None,
        _look(
            "-f",
            "--file",
            parser=non_empty,
            metavar="FILE",
            help="The same about a file, or files and PROMPT, as generate reads them; repeatable.",
        ),
    ],
    "diff": Annotated[
        tuple[str, str] | None,
        _look(
            "--diff",
            parser=_pair,
            metavar="A B",
            help="Two runs by their keys, or two files: common prefix, first difference.",
        ),
    ],
    "check": Annotated[
        bool, _look("--check", help="Read and verify everything; exit 4 for damage.")
    ],
    "stats": Annotated[bool, _look("--stats", help="K and V of each layer in numbers.")],
    "export": Annotated[
        str | None,
        _look(
            "--export",
            parser=_hf_path,
            metavar="hf:OUT",
            help="Write a prefix as a Hugging Face cache.",
        ),
    ],
    "gate": Annotated[
        str | None,
        _look(
            "--gate",
            parser=non_empty,
            metavar="MODEL",
            help="Measure how well moved text does, for --reuse shift, and keep the record; exit 6 "
            "outside the limits. demo: the model that runs when none is named.",
        ),
    ],
    "rope_check": Annotated[
        str | None,
        _look(
            "--rope-check",
            parser=non_empty,
            metavar="MODEL",
            help="What moved text rests on, measured on the weights; exit 6 if a fact fails.",
        ),
    ],
    "repair_index": Annotated[
        bool, _change("--repair-index", help="Make the index anew; drop what is damaged.")
    ],
    "import_": Annotated[
        str | None,
        _change("--import", parser=_hf_path, metavar="hf:IN", help="Take in a Hugging Face cache."),
    ],
    "pin": Annotated[
        list[str] | None,
        _change(
            "--pin", parser=non_empty, metavar="KEY", help="Keep a run when others go; repeatable."
        ),
    ],
    "unpin": Annotated[
        list[str] | None,
        _change("--unpin", parser=non_empty, metavar="KEY", help="Let go of it; repeatable."),
    ],
    "prune": Annotated[
        str | None,
        _change(
            "--prune",
            parser=_prune_target,
            metavar="WHAT",
            help="Remove all, older:7d, unused:7d (not read for so long), model:NAME (its "
            "architecture or weights digest) or KEY. Pinned runs stay.",
        ),
    ],
    "yes": Annotated[bool, _change("--yes", help="Do not ask.")],
    **GATE_OPTIONS,
    "messages": MessagesOption,
    "system": SystemOption,
    "raw": RawOption,
    "show_text": Annotated[
        bool,
        option(OUTPUT, "--show-text", help="With --tree and --diff: the text, by -m's tokenizer."),
    ],
    "key": Annotated[
        str | None,
        option(
            OUTPUT,
            "--key",
            parser=non_empty,
            metavar="KEY",
            help="With --stats and --export: up to the end of this run. The beginning of a key is "
            "enough everywhere.",
        ),
    ],
    "plot": Annotated[
        str | None,
        option(
            OUTPUT,
            "--plot",
            parser=non_empty,
            metavar="OUT.png|OUT.svg",
            help="With --stats: draw them as a heat map.",
        ),
    ],
    "format": FormatOption,
}

_FROM_ENGINE = (
    "cache_dir",  # the same as DIR
    *("model", "revision", "device", "dtype", "block_size", "prefix_index", "salt"),
    "deterministic",
)
_ENGINE = OptionGroup(
    EngineConfig, {p.name: p.annotation for p in ENGINE.parameters if p.name in _FROM_ENGINE}
)


@option_groups(request=OptionGroup(InspectRequest, _REQUEST), engine=_ENGINE)
def inspect_cache(
    target: TargetArgument = None, *, request: InspectRequest, engine: EngineConfig
) -> None:
    """What is stored, and why a prompt hits or misses."""
    action = request.action
    from kvtool.cli.inspect_target import run_action  # here, because help needs none of this

    run_action(action, target, request, engine)
