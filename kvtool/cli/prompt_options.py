"""Options that make up a prompt, the same for every command that takes one."""

from __future__ import annotations

from typing import Annotated

from kvtool.cli.options import option
from kvtool.cli.parsers import non_empty

PROMPT = "Prompt"

FileOption = Annotated[
    list[str] | None,
    option(
        PROMPT,
        "-f",
        "--file",
        parser=non_empty,
        metavar="FILE",
        help="Text before PROMPT; repeatable; - is stdin.",
    ),
]
MessagesOption = Annotated[
    str | None,
    option(
        PROMPT,
        "--messages",
        parser=non_empty,
        metavar="FILE",
        help="JSON list of messages; PROMPT comes last.",
    ),
]
SystemOption = Annotated[
    str | None, option(PROMPT, "-s", "--system", metavar="TEXT", help="System message.")
]
RawOption = Annotated[
    bool, option(PROMPT, "--raw", help="No chat template: contents joined by blank lines.")
]
