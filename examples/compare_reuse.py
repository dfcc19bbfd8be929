"""One trace three times through the demo model: without reuse, with prefixes, with moved text.

    python examples/compare_reuse.py [TRACE]

Every run starts with an empty cache and makes the recorded replies its own, so that all of them
compute the same tokens. TTFT, the time to first token, is measured. KL says how far the predictions
of the reply's tokens are from those of a computation without any reuse: of moved text, which is
approximate. `ungated`: it is used here without the measurement of the model that
`kvtool inspect-cache --gate demo` makes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from kvtool.config import EngineConfig
from kvtool.models.chat_tokenizer import ChatTokenizer
from kvtool.replay.model import ModelSettings, replay_on_model
from kvtool.replay.outcome import RequestOutcome
from kvtool.runtime import Runtime
from kvtool.traces.open_trace import Trace, open_trace
from kvtool.traces.prepare import prepare, unit_of
from kvtool.traces.render import Renderer
from kvtool.traces.template_rendering import TemplateRendering

TRACE = Path(__file__).parent / "traces" / "upload-first.jsonl"
WAYS = ("none", "prefix", "shift")


class Row(NamedTuple):
    """Tokens are those of all prompts; kl_mean in nats, over the replies; None: nothing reused."""

    reuse: str
    ttft_ms: float
    cached: int
    shifted: int
    recomputed: int
    computed: int
    kl_mean: float | None


def measure(trace: Trace, reuse: str, model: str | None = None) -> Row:
    """model: as for `kvtool generate --model`; None: the demo model."""
    config = EngineConfig(model=model, reuse=reuse, ungated=reuse == "shift", no_cache_dir=True)
    outcomes: list[RequestOutcome] = []
    runtime = Runtime.open(config)
    rendering = TemplateRendering(ChatTokenizer(runtime.tokenizer, str(runtime.effective["model"])))
    requests = prepare(trace, Renderer(rendering), unit_of(trace, config.block_size))
    settings = ModelSettings(verify=reuse != "none")
    totals = replay_on_model(runtime, requests, settings, on_outcome=outcomes.append).totals
    runtime.close()
    divergences = [o.verification.kl_mean for o in outcomes if o.verification]
    return Row(
        reuse,
        1000 * totals.ttft_s.mean,
        totals.cached_tokens,
        totals.shifted_tokens,
        totals.recomputed_tokens,
        totals.computed_tokens,
        sum(divergences) / len(divergences) if divergences else None,
    )


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACE
    trace = open_trace([path])
    print(f"{path.name}: {len(trace)} requests on the demo model; shift is ungated\n")
    print(
        f"{'reuse':8}{'TTFT, mean':>12}{'prefix':>9}{'moved':>9}{'again':>9}{'computed':>10}"
        f"{'KL, mean':>11}"
    )
    for reuse in WAYS:
        row = measure(trace, reuse)
        divergence = "-" if row.kl_mean is None else f"{row.kl_mean:.1g}"
        print(
            f"{row.reuse:8}{row.ttft_ms:9,.0f} ms{row.cached:9,}{row.shifted:9,}"
            f"{row.recomputed:9,}{row.computed:10,}{divergence:>11}",
            flush=True,
        )
    print(
        "\nprefix: tokens that an earlier prompt begins with; moved: cached behind another beginning;"
        "\nagain: of moved text, computed again so that it sees its new context (--repair)"
    )


if __name__ == "__main__":
    main()
