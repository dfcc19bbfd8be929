"""Values that change from request to request: clocks, dates, ids, counters."""

from __future__ import annotations

import re

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})\b)?"
_COUNTED = (
    r"turn|step|request|message|iteration|attempt|round|call|counter|count|run|seed|nonce|"
    r"remaining|left|used|number|no\."
)

VALUES = {
    "date": rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?{_ZONE})?"
    rf"|(?:{_DAY},? )?(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}\.? {_MONTH}),? \d{{4}}"
    rf"|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}|{_DAY}",
    "clock": rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?{_ZONE}",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "id": r"[A-Za-z]{2,12}[_-](?=[A-Za-z]*\d)[A-Za-z0-9]{8,}",
    "hex": r"(?:0x)?(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}",
    "epoch": r"1[0-9]{9}(?:\d{3})?(?:\.\d+)?",
    "counter": rf"(?<=#)\d+|(?:(?:{_COUNTED})\s*(?:[:=#]|is)?\s*#?)\d+|\d+(?= (?:{_COUNTED})\b)",
}
_VALUE = re.compile(
    "|".join(rf"(?P<{name}>(?<![\w.-])(?:{value})(?![\w-]))" for name, value in VALUES.items()),
    re.IGNORECASE,
)


def masked(text: str) -> tuple[str, frozenset[str]]:
    """The text with each value replaced by its kind, and the kinds."""
    kinds = set()

    def mask(match: re.Match[str]) -> str:
        assert match.lastgroup is not None
        kinds.add(match.lastgroup)
        return f"\0{match.lastgroup}\0"

    return _VALUE.sub(mask, text), frozenset(kinds)
