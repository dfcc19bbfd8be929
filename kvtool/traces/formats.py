"""The trace formats by name, in the order in which a file is tried against them."""

from __future__ import annotations

from kvtool.names import Table, lookup
from kvtool.traces.trace_format import Format

FORMATS: Table = {
    "agentic-mooncake": "kvtool.traces.agentic_mooncake:FORMAT",
    "bailian": "kvtool.traces.bailian:FORMAT",
    "mooncake": "kvtool.traces.mooncake:FORMAT",
    "weka": "kvtool.traces.weka:FORMAT",
    "openai": "kvtool.traces.openai_chat:FORMAT",
    "claude-code": "kvtool.traces.claude_code:FORMAT",
    "codex": "kvtool.traces.codex:FORMAT",
    "lmcache": "kvtool.traces.lmcache:FORMAT",
    "swe-agent": "kvtool.traces.swe_agent:FORMAT",
    "tau-bench": "kvtool.traces.tau_bench:FORMAT",
    "tau2": "kvtool.traces.tau2:FORMAT",
    "openhands": "kvtool.traces.openhands:FORMAT",
    "litellm": "kvtool.traces.litellm:FORMAT",
    "sharegpt": "kvtool.traces.sharegpt:FORMAT",
    "otel": "kvtool.traces.otel:FORMAT",
    "openinference": "kvtool.traces.openinference:FORMAT",
    "langfuse": "kvtool.traces.langfuse:FORMAT",
    "lengths": "kvtool.traces.lengths:FORMAT",
}


def format_named(name: str) -> Format:
    """Raises `ConfigError` for a name that is not in the table."""
    found: Format = lookup(FORMATS, name, "trace format")
    return found
