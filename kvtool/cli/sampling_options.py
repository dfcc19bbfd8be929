"""How tokens are chosen: the options of `SamplingParams`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from kvtool.cli.option_groups import OptionGroup
from kvtool.cli.options import SAMPLING, count, option
from kvtool.cli.parsers import integer, non_empty, real
from kvtool.engine.sampling import SamplingParams


def parse_logit_bias(text: str) -> tuple[int, float]:
    """`ID=BIAS`, for example `42=-100`."""
    token, separator, bias = text.partition("=")
    if not separator:
        raise ValueError(f"{text!r} is not of the form ID=BIAS.")
    return integer(0)(token), real("a number", lambda _: True)(bias)


def _real(name: str, help: str, allowed: str, accepts: Any) -> Any:
    return option(SAMPLING, name, help=help, parser=real(allowed, accepts), metavar="X")


MaxTokensOption = Annotated[
    int | None,
    option(
        SAMPLING,
        "--max-tokens",
        parser=integer(1),
        metavar="N",
        help="Most tokens of the reply; default: 256, or what the context leaves.",
    ),
]

_OPTIONS = {
    "temperature": Annotated[
        float,
        _real(
            "--temperature",
            "0: always the likeliest token; else 0.01 to 100.",
            "0, or 0.01 to 100",
            lambda x: x == 0 or 0.01 <= x <= 100,
        ),
    ],
    "top_p": Annotated[
        float,
        _real(
            "--top-p",
            "Only the likeliest tokens that make up this probability.",
            "above 0, at most 1",
            lambda x: 0 < x <= 1,
        ),
    ],
    "top_k": Annotated[
        int, count(SAMPLING, "--top-k", "Only the N likeliest tokens; 0: all.", minimum=0)
    ],
    "min_p": Annotated[
        float,
        _real(
            "--min-p",
            "Only tokens at least X times as likely as the likeliest.",
            "0 to below 1",
            lambda x: 0 <= x < 1,
        ),
    ],
    "repetition_penalty": Annotated[
        float,
        _real(
            "--repetition-penalty",
            "Above 1: tokens seen before become less likely; 0.01 to 100.",
            "0.01 to 100",
            lambda x: 0.01 <= x <= 100,
        ),
    ],
    "logit_bias": Annotated[
        list[str] | None,
        option(
            SAMPLING,
            "--logit-bias",
            parser=parse_logit_bias,
            metavar="ID=BIAS",
            help="Add BIAS (-10000 to 10000) to the logit of token ID; repeatable.",
        ),
    ],
    "stop": Annotated[
        list[str] | None,
        option(
            SAMPLING,
            "--stop",
            parser=non_empty,
            metavar="TEXT",
            help="End before this text; repeatable.",
        ),
    ],
    "ignore_eos": Annotated[
        bool, option(SAMPLING, "--ignore-eos", help="Go on behind end-of-sequence tokens.")
    ],
    "logprobs": Annotated[
        int | None,
        option(
            SAMPLING,
            "--logprobs",
            parser=integer(0, 100),
            metavar="N",
            help="Log-probability of each token and of the N likeliest (in the JSON document).",
        ),
    ],
}


def _sampling_params(
    *, logit_bias: list[tuple[int, float]] | None, stop: list[str] | None, **values: Any
) -> SamplingParams:
    bias: Mapping[int, float] = dict(logit_bias or ())
    return SamplingParams(logit_bias=bias, stop=tuple(stop or ()), **values)


SAMPLING_GROUP = OptionGroup(SamplingParams, _OPTIONS, _sampling_params)
