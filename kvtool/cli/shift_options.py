"""Which cached text is moved to another position, and how it is corrected there."""

from __future__ import annotations

from typing import Annotated

from kvtool.cli.options import SHIFT, count, one_of, option
from kvtool.config import REUSE_SCHEMES, EngineConfig

DONORS = (
    "similar",
    "recent",
    "consensus",
)  # as in kvtool.reuse.donors, whose import takes too long here
DEFAULT_REPAIR = EngineConfig().repair
REPAIRS = "auto|none|first:K|attn:SHARE|vdev:SHARE|kdev:SHARE"


def parse_repair_rule(text: str) -> str:
    """In the one way to write it: a record of the gate is found by it. Raises `ConfigError`."""
    if text == DEFAULT_REPAIR:  # of every command line without the option
        return text
    from kvtool.reuse.repair import parse_repair

    return str(parse_repair(text))


SHIFT_OPTIONS = {
    "reuse_scheme": Annotated[
        str,
        one_of(
            SHIFT,
            "--reuse-scheme",
            REUSE_SCHEMES,
            "How keys are kept. rotate: as the model makes them; to use them elsewhere queries are "
            "turned. nope: without their rotation, which attention applies at every read; slower, "
            "and KV of its own.",
        ),
    ],
    "donor": Annotated[
        str,
        one_of(
            SHIFT,
            "--donor",
            DONORS,
            "Which of several copies of a text is moved: the one with the most similar text in "
            "front; the one used last; or the mean of up to four of them, made once they are "
            "computed and kept in blocks of its own, and similar where there is none.",
        ),
    ],
    "repair": Annotated[
        str,
        option(
            SHIFT,
            "--repair",
            parser=parse_repair_rule,
            metavar=REPAIRS,
            help="Which moved tokens are computed again: the first K of each text; or a SHARE of "
            "them, such as 0.15, that the prompt looks at most (attn) or whose values (vdev) or "
            "keys (kdev) changed most. auto: the first quarter, at least 32.",
        ),
    ],
    "min_run": Annotated[
        int,
        count(SHIFT, "--min-run", "Tokens of the shortest text that is moved."),
    ],
    "ungated": Annotated[
        bool,
        option(
            SHIFT,
            "--ungated",
            help="Move text without a passing record of inspect-cache --gate.",
        ),
    ],
}
