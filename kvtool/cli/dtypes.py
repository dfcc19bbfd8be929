"""Names of number formats: bf16 = bfloat16, fp16 = float16 = half, fp32 = float32."""

from __future__ import annotations

import difflib

ALIASES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
}


def parse_dtype(
    text: str, allowed: tuple[str, ...] = ("auto", "float32", "bfloat16", "float16")
) -> str:
    """The full name behind a name or alias; `ValueError` lists what is allowed."""
    name = ALIASES.get(text.lower(), text.lower())
    if name in allowed:
        return name
    short = [alias for alias, full in ALIASES.items() if full in allowed]
    near = difflib.get_close_matches(name, [*allowed, *short], n=1)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"{text!r} is not a dtype; allowed: {', '.join(allowed)} (short: {', '.join(short)}).{suggestion}"
    )
