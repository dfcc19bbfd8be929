"""`kvtool size-calc`: how many bytes a KV cache takes, and what fits. The work is in `sizing`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvtool.cli.option_groups import OptionGroup, option_groups
from kvtool.cli.options import OUTPUT, FormatOption, count, one_of, option
from kvtool.cli.output import write, write_json
from kvtool.cli.parsers import integer, non_empty, real
from kvtool.cli.sizes import format_size, parse_size
from kvtool.errors import ConfigError
from kvtool.sizing.fields import MAX_LAYERS
from kvtool.sizing.from_flags import ModelFlags
from kvtool.sizing.request import VLLM_FORMULAS, SizeRequest
from kvtool.sizing.transfer import LINKS

if TYPE_CHECKING:
    from kvtool.sizing.model_spec import ModelSpec
    from kvtool.sizing.report import SizeReport

MODEL, LOAD, FIT, SPEED = "Model", "What is cached", "Memory", "Speed"

EXAMPLES = (
    "kvtool size-calc --layers 32",
    "kvtool size-calc --layers 32 --kv-heads 8 --tokens 32768 --batch 16 --prefix-share 2048",
    "kvtool size-calc --layers 32 --kv-heads 8 --gpu h100 --weights 15GiB --format json",
    "kvtool size-calc --layers 61 --kv-lora-rank 512 --tokens 131072 --tp 8 --memory 40GiB",
    "kvtool size-calc --layers 30 --kv-heads 8 --sliding-window 1024 --sliding-layers 25 --per-layer",
)

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        parser=non_empty,
        metavar="MODEL",
        help="Folder, config.json, .gguf or hub id; - is a config on stdin.",
        rich_help_panel=MODEL,
    ),
]
RevisionOption = Annotated[
    str | None,
    option(
        MODEL,
        "--revision",
        parser=non_empty,
        metavar="REV",
        help="Branch, tag or commit of a hub id.",
    ),
]
PerLayerOption = Annotated[
    bool, option(OUTPUT, "--per-layer", help="A row for each layer (always in the JSON).")
]
PlotOption = Annotated[
    Path | None,
    option(
        OUTPUT,
        "--plot",
        parser=Path,
        metavar="OUT.png|OUT.svg",
        help="Draw size against tokens to a file.",
    ),
]


def _size(panel: str, name: str, help: str, **settings: Any) -> Any:
    return option(panel, name, help=help, parser=parse_size, metavar="SIZE", **settings)


_FLAGS = {
    "layers": option(
        MODEL,
        "--layers",
        help="Layers of a model without a config.",
        parser=integer(1, MAX_LAYERS),
        metavar="N",
    ),
    "heads": count(MODEL, "--heads", "Attention heads; default 32."),
    "kv_heads": count(MODEL, "--kv-heads", "KV heads; default: as many as --heads."),
    "head_dim": count(
        MODEL, "--head-dim", "Values of a head; default: --hidden-size / --heads, else 128."
    ),
    "hidden_size": count(MODEL, "--hidden-size", "Width of the model."),
    "kv_lora_rank": count(MODEL, "--kv-lora-rank", "MLA: values of the latent."),
    "rope_head_dim": count(MODEL, "--rope-head-dim", "MLA: values of the rotary key; default 64."),
    "sliding_window": count(MODEL, "--sliding-window", "Tokens a windowed layer keeps."),
    "sliding_layers": count(
        MODEL, "--sliding-layers", "How many layers are windowed; default: all."
    ),
}
_REQUEST = {
    "tokens": Annotated[int, count(LOAD, "--tokens", "Length of each sequence.")],
    "batch": Annotated[int, count(LOAD, "--batch", "Sequences at a time.")],
    "prefix_share": Annotated[
        int,
        count(
            LOAD, "--prefix-share", "First tokens that all sequences share, stored once.", minimum=0
        ),
    ],
    "encoder_tokens": Annotated[
        int | None, count(LOAD, "--encoder-tokens", "Encoder or image tokens of cross-attention.")
    ],
    "mtp": Annotated[
        bool, option(LOAD, "--mtp/--no-mtp", help="Count multi-token-prediction layers.")
    ],
    "kv_dtype": Annotated[
        str,
        option(
            LOAD,
            "--kv-dtype",
            "--dtype",
            metavar="NAME",
            help="bf16, fp32, fp8, int8, int4, nvfp4, q8_0, … (a wrong name lists all).",
        ),
    ],
    "block_size": Annotated[int, count(LOAD, "--block-size", "Token slots in a block.")],
    "max_model_len": Annotated[
        int | None,
        count(LOAD, "--max-model-len", "Length a contiguous cache reserves; default: the model's."),
    ],
    "tp": Annotated[int, count(FIT, "--tp", "Tensor parallel ranks.")],
    "pp": Annotated[int, count(FIT, "--pp", "Pipeline stages.")],
    "cp": Annotated[int, count(FIT, "--cp", "Context parallel ranks.")],
    "memory": Annotated[int | None, _size(FIT, "--memory", "Memory for KV on each GPU.")],
    "gpu": Annotated[
        str | None,
        option(FIT, "--gpu", metavar="NAME", help="h100, a100-80gb, l4, … in place of --memory."),
    ],
    "utilization": Annotated[
        float,
        option(
            FIT,
            "--utilization",
            parser=real("above 0, at most 1", lambda x: 0 < x <= 1),
            metavar="SHARE",
            help="Share of the GPU that may be used.",
        ),
    ],
    "weights": Annotated[
        int | None,
        _size(FIT, "--weights", "Size of all weights; default: of the model's files."),
    ],
    "overhead": Annotated[
        int,
        _size(
            FIT,
            "--overhead",
            "Activations, CUDA context and graphs on each GPU.",
            show_default="5GiB",
        ),
    ],
    "max_num_batched_tokens": Annotated[
        int,
        count(FIT, "--max-num-batched-tokens", "vLLM's option; windowed layers reserve for it."),
    ],
    "vllm_formula": Annotated[
        str, one_of(FIT, "--vllm-formula", tuple(VLLM_FORMULAS), "Which of vLLM's two token lines.")
    ],
    "prompt_tokens": Annotated[
        int,
        count(SPEED, "--prompt-tokens", "Of --tokens; the others are generated.", minimum=0),
    ],
    "link_bandwidth": Annotated[
        list[int] | None,
        _size(SPEED, "--link-bandwidth", "Bytes a second of a link, such as 50GB; repeatable."),
    ],
}


def _build_request(*, link_bandwidth: list[int] | None, **values: Any) -> SizeRequest:
    links = {f"link {n}": float(rate) for n, rate in enumerate(link_bandwidth or (), 1)}
    return SizeRequest(link_bandwidth=links or LINKS, **values)


@option_groups(
    flags=OptionGroup(ModelFlags, {k: Annotated[int | None, v] for k, v in _FLAGS.items()}),
    request=OptionGroup(SizeRequest, _REQUEST, _build_request),
)
def size_calc(
    model: ModelArgument = None,
    *,
    revision: RevisionOption = None,
    per_layer: PerLayerOption = False,
    plot: PlotOption = None,
    format: FormatOption = "human",
    flags: ModelFlags,
    request: SizeRequest,
) -> None:
    """How many bytes the KV cache of a model takes, and what fits into a memory."""
    from kvtool.sizing.calculate import calculate

    spec = _model(model, revision, flags)
    report = calculate(spec, request)
    if plot is not None:
        _plot(plot, spec, request, report)
    if format == "json":
        write_json(report)
        return
    from kvtool.cli.size_view import render

    write(render(report, per_layer=per_layer))


def _model(source: str | None, revision: str | None, flags: ModelFlags) -> ModelSpec:
    if source is not None:
        if flags.given:
            raise ConfigError(
                f"MODEL and {', '.join(flags.given)} exclude each other; give one.",
                hint="A MODEL brings all its numbers; the options describe a model without a config.",
            )
        from kvtool.sizing.source import read_model

        return read_model(source, revision)
    if not flags.given:
        raise ConfigError(
            "Neither a MODEL nor --layers is given.", hint="kvtool size-calc --layers 32"
        )
    from kvtool.sizing import from_flags

    return from_flags.model_spec(flags)


def _plot(path: Path, spec: ModelSpec, request: SizeRequest, report: SizeReport) -> None:
    from kvtool.sizing.chart import shapes, write_chart
    from kvtool.sizing.curve import size_curve

    write_chart(path, shapes(size_curve(spec, request, report), format_size))
