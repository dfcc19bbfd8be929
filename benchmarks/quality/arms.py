"""What is compared: where the moved KV comes from, and what is computed again."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from kvtool.errors import ConfigError

OWN, RECENT, SIMILAR, CONSENSUS = "own", "recent", "similar", "consensus"
SELECTING = ("attn", "vdev", "kdev")
SHARES = (0.05, 0.15, 0.3)
CONTEXTS = (2, 4)


class Arm(NamedTuple):
    """donor, contexts: the rule, and among how many earlier contexts it chooses.

    leading: a repair that is known before the forward pass. select, share: the rule and the
    share of the tokens behind the leading ones; granule: 1, or the tokens of a block that are
    chosen together. reuse=False leaves the text out; rotated=False reads keys unturned.
    """

    name: str
    donor: str = OWN
    contexts: int = 4
    leading: str = "none"
    select: str | None = None
    share: float = 0
    granule: int = 1
    reuse: bool = True
    rotated: bool = True


def _repaired(repair: str, donor: str = OWN, contexts: int = 4, name: str = "") -> Arm:
    """repair: none, auto, first:K, RULE:SHARE, RULE16:SHARE, or first:K+RULE:SHARE."""
    leading, plus, selecting = repair.rpartition("+")
    rule, _, share = selecting.partition(":")
    if not rule.startswith(SELECTING):
        return Arm(name or repair, donor, contexts, repair)
    granule = 16 if rule.endswith("16") else 1
    rule, leading = rule.removesuffix("16"), leading if plus else "none"
    return Arm(name or repair, donor, contexts, leading, rule, float(share), granule)


def _by_donor(donor: str, contexts: int, repair: str) -> Arm:
    """Among one context every rule is `recent`, and `recent` is the same among any number."""
    rule = donor if donor == RECENT else f"{donor}@{contexts}"
    return _repaired(repair, donor, contexts, f"{rule}/{repair}")


def _all() -> list[Arm]:
    repairs = ["none", "first:16", "first:32", "first:64", "auto"]
    selecting = [f"{rule}{size}:{share}" for rule in SELECTING for size in ("", "16")
                 for share in SHARES]  # fmt: skip
    rules = [(RECENT, 4), *product((SIMILAR, CONSENSUS), CONTEXTS)]
    by_donor = [(*rule, repair) for rule in rules for repair in ("none", "first:32")]
    combined = "first:16+attn:0.1"
    return [
        Arm("left-out", reuse=False),
        Arm("unrotated", rotated=False),
        *map(_repaired, repairs),
        *(_by_donor(*rule) for rule in by_donor),
        *map(_repaired, [combined, *selecting]),
        *(_by_donor(donor, 4, combined) for donor in (SIMILAR, CONSENSUS)),
    ]


ARMS = {arm.name: arm for arm in _all()}


def choose_arms(patterns: list[str]) -> list[Arm]:
    """Arms whose name fits any of the patterns (`*`, `?`), in the order of ARMS.

    Raises `ConfigError`.
    """
    chosen = [arm for arm in ARMS.values() if any(fnmatchcase(arm.name, p) for p in patterns)]
    unknown = [p for p in patterns if not any(fnmatchcase(name, p) for name in ARMS)]
    if unknown:
        raise ConfigError(f"--arms {' '.join(unknown)}: no such arm; allowed: {', '.join(ARMS)}.")
    return chosen
