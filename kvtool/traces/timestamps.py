"""Times as logs write them, in seconds."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from kvtool.traces.read_log import BadRecord
from kvtool.traces.record import first_of, shown
from kvtool.traces.trace_request import Json

_FRACTION = re.compile(r"\.(\d+)")
# Since the epoch, every moment from 1973 to 5138 has its unit in its size.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


def seconds(fields: Json, *names: str) -> float | None:
    """The first of these fields that is there: ISO 8601 text (UTC unless it says), or a number:
    seconds; where it is too large for that, milli-, micro- or nanoseconds since the epoch."""
    value = first_of(fields, *names)
    if value is None or value == "":
        return None
    moment = _of_text(value) if isinstance(value, str) else value
    if isinstance(moment, int | float) and not isinstance(moment, bool) and 0 <= moment < 1e20:
        return float(moment) / next((unit for least, unit in _UNITS if moment >= least), 1.0)
    raise BadRecord(f"{names[0]} must be a time", f"it is {shown(value)}")


def _of_text(value: str) -> float | int | None:
    if value.isdecimal():
        return int(value) if len(value) <= 20 else None
    text = value.strip().replace("Z", "+00:00").replace(" UTC", "+00:00")
    text = _FRACTION.sub(lambda digits: "." + digits[1][:6].ljust(6, "0"), text, count=1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _of_number(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _of_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def lasted(start: float | None, end: float | None) -> float | None:
    """Seconds from one to the other; None where one is unknown or they run backwards."""
    return end - start if start is not None and end is not None and end >= start else None
