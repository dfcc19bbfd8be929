"""The options of `simulate-agent` beside the engine's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from kvtool.cache import eviction
from kvtool.cli import simulate_values as values
from kvtool.cli.option_groups import OptionGroup
from kvtool.cli.options import OUTPUT, FormatOption, count, one_of, option
from kvtool.cli.parsers import non_empty, real
from kvtool.cli.simulate_values import Capacity, Export
from kvtool.cli.sizes import parse_size

TRACE, REPLAY, ANALYSIS = "Trace", "Replay", "Analysis"
MODES, REPLIES = ("serial", "arrival"), ("recorded", "generate")  # as in kvtool.replay, likewise
POLICIES = ("lru", "lfu", "fifo", "belady")  # as in kvtool.simulation.settings, likewise
SCHEMES = ("chain", "radix", "shift-grid", "shift-any")

_RATE = real("0.001 to 1e12", lambda x: 0.001 <= x <= 1e12)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """The options by name. None: not given."""

    input_format: str | None = None
    lenient: bool = False
    trace_block_size: int | None = None
    tokenizer: str | None = None
    replay: str = "serial"
    output_kv: bool | None = None
    prefill_rate: float | None = None
    decode_rate: float | None = None
    calibrate: bool = False
    replies: str = "recorded"
    verify: bool = False
    capacity: tuple[Capacity, ...] | None = None
    kv_bytes_per_token: int | None = None
    policies: tuple[str, ...] = POLICIES
    schemes: tuple[str, ...] = SCHEMES
    explain: str | None = None
    advice: bool = True
    apply: str | None = None
    requests: str | None = None
    report: str | None = None
    timeline: str | None = None
    export: Sequence[Export] | None = None
    format: str = "human"


_TRACE = {
    "input_format": Annotated[
        str | None,
        option(
            TRACE,
            "--input-format",
            parser=values.input_format,
            metavar="NAME",
            help="Read the files as this format (a wrong name lists all).",
            show_default="told by the first records",
        ),
    ],
    "lenient": Annotated[
        bool,
        option(TRACE, "--lenient", help="Skip and count bad records; else the first one ends it."),
    ],
    "trace_block_size": Annotated[
        int | None,
        count(
            TRACE,
            "--trace-block-size",
            "Tokens of a block of hash ids; default: what the file states, or the one size that "
            "all its records fit.",
        ),
    ],
    "tokenizer": Annotated[
        str | None,
        option(
            TRACE,
            "--tokenizer",
            parser=non_empty,
            metavar="MODEL",
            help="Render text with this model's tokenizer and chat template; its weights are not "
            "read. demo: the model that generate runs when none is named.",
            show_default="kvtool-pieces, which is approximate",
        ),
    ],
}
_REPLAY = {
    "replay": Annotated[
        str,
        one_of(
            REPLAY,
            "--replay",
            MODES,
            "serial: each request alone, in the order of the trace. arrival: by time, with "
            "requests in flight together, each after those it waits for.",
        ),
    ],
    "output_kv": Annotated[
        bool | None,
        option(
            REPLAY,
            "--output-kv/--no-output-kv",
            help="Whether replies are cached too, as they are on a worker that decodes; a model "
            "caches them in any case.",
            show_default="no-output-kv; with --model, output-kv",
        ),
    ],
    "prefill_rate": Annotated[
        float | None,
        option(
            REPLAY,
            "--prefill-rate",
            parser=_RATE,
            metavar="TOKENS/S",
            help="Of the virtual clock: prompt tokens a second.",
            show_default="10000",
        ),
    ],
    "decode_rate": Annotated[
        float | None,
        option(
            REPLAY,
            "--decode-rate",
            parser=_RATE,
            metavar="TOKENS/S",
            help="Of the virtual clock: tokens a second of one reply.",
            show_default="50",
        ),
    ],
    "calibrate": Annotated[
        bool,
        option(
            REPLAY,
            "--calibrate",
            help="Measure both rates on --model, which computes about 4,200 tokens for it, and "
            "replay without it.",
        ),
    ],
    "replies": Annotated[
        str,
        one_of(
            REPLAY,
            "--replies",
            REPLIES,
            "With --model. recorded: the model is made to say what the trace says, where it says "
            "anything; generate: it answers for itself.",
        ),
    ],
    "verify": Annotated[
        bool,
        option(
            REPLAY,
            "--verify",
            help="With --model: compute each reply again without reuse; exit 6 where exact reuse "
            "differs.",
        ),
    ],
}
# Lists are text to Typer, whose tuples are options with several words.
_ANALYSIS = {
    "capacity": Annotated[
        str | None,
        option(
            ANALYSIS,
            "--capacity",
            parser=values.capacities,
            metavar="N[,N…]",
            help="Blocks, or sizes such as 8GiB; the first is the cache that is replayed, unless "
            "--kv-blocks or --kv-memory says so. Default: a cache that never evicts, and what 90, "
            "95 and 99 % of its hits take.",
        ),
    ],
    "kv_bytes_per_token": Annotated[
        int | None,
        option(
            ANALYSIS,
            "--kv-bytes-per-token",
            parser=parse_size,
            metavar="SIZE",
            help="Of all layers (see size-calc): gives capacities in bytes.",
            show_default="of --model",
        ),
    ],
    "policies": Annotated[
        str,
        option(
            ANALYSIS,
            "--policies",
            parser=values.policies,
            metavar="NAME[,NAME…]",
            help=f"Evictions to compare: {', '.join(eviction.POLICIES)}, ttl:SECONDS, and belady, "
            "the best there can be.",
            show_default=",".join(POLICIES),
        ),
    ],
    "schemes": Annotated[
        str,
        option(
            ANALYSIS,
            "--schemes",
            parser=values.schemes,
            metavar="NAME[,NAME…]",
            help="Reuse to compare: chain and radix (prefixes), shift-grid and shift-any (text "
            "that moved; --repair and --min-run hold for both).",
            show_default=",".join(SCHEMES),
        ),
    ],
    "explain": Annotated[
        str | None,
        option(
            ANALYSIS,
            "--explain",
            parser=non_empty,
            metavar="ID",
            help="One request in full: what hit, what missed and why, and the text that differs.",
        ),
    ],
    "advice": Annotated[
        bool,
        option(
            ANALYSIS,
            "--advice/--no-advice",
            help="Replay changes that keep the meaning, and tell those that gain.",
        ),
    ],
}


def _file(name: str, metavar: str, help: str) -> Any:
    return option(OUTPUT, name, parser=values.out_file, metavar=metavar, help=help)


_OUTPUT = {
    "apply": Annotated[
        str | None, _file("--apply", "OUT.jsonl", "Write the trace with the advice applied.")
    ],
    "requests": Annotated[
        str | None, _file("--requests", "OUT.jsonl", "Write a line for each request.")
    ],
    "report": Annotated[
        str | None, _file("--report", "OUT.html", "Write one page with charts and tables.")
    ],
    "timeline": Annotated[
        str | None, _file("--timeline", "OUT.json", "Write the replay for ui.perfetto.dev.")
    ],
    "export": Annotated[
        list[Export] | None,
        option(
            OUTPUT,
            "--export",
            parser=values.export,
            metavar="FORMAT:OUT",
            help="Write the trace as mooncake, weka or openai, ids salted; repeatable.",
        ),
    ],
    "format": FormatOption,
}

REQUEST = OptionGroup(SimulateRequest, _TRACE | _REPLAY | _ANALYSIS | _OUTPUT)
