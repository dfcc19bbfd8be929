"""What `inspect-cache --gate` measures, and against which limits."""

from __future__ import annotations

from typing import Annotated

from kvtool.cli.options import count, one_of, option
from kvtool.cli.parsers import real
from kvtool.cli.shift_options import DONORS, REPAIRS, parse_repair_rule
from kvtool.config import REUSE_SCHEMES, EngineConfig

GATE = "With --gate"
LIMITS = {"gate_kl": "0.02", "gate_top1": "0.92"}  # as in kvtool.gate.score, imported late

_default = EngineConfig()

GATE_OPTIONS = {
    "reuse_scheme": Annotated[
        str | None,
        one_of(
            GATE,
            "--reuse-scheme",
            REUSE_SCHEMES,
            "As in generate; also whose KV --why looks for.",
            show_default=_default.reuse_scheme,
        ),
    ],
    "repair": Annotated[
        str | None,
        option(
            GATE,
            "--repair",
            parser=parse_repair_rule,
            metavar=REPAIRS,
            help="As in generate; a record holds for one repair.",
            show_default=_default.repair,
        ),
    ],
    "donor": Annotated[
        str | None,
        one_of(GATE, "--donor", DONORS, "As in generate.", show_default=_default.donor),
    ],
    "min_run": Annotated[
        int | None,
        count(GATE, "--min-run", "As in generate.", show_default=str(_default.min_run)),
    ],
    "gate_kl": Annotated[
        float | None,
        option(
            GATE,
            "--gate-kl",
            parser=real("0 or more", lambda value: value >= 0),
            metavar="NATS",
            help="Largest mean KL divergence of moved text from a full recompute, over all rows.",
            show_default=LIMITS["gate_kl"],
        ),
    ],
    "gate_top1": Annotated[
        float | None,
        option(
            GATE,
            "--gate-top1",
            parser=real("0 to 1", lambda value: 0 <= value <= 1),
            metavar="SHARE",
            help="Smallest share of rows with the same likeliest token.",
            show_default=LIMITS["gate_top1"],
        ),
    ],
}
