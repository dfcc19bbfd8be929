"""Every known report is either covered by a test or has a stated reason, never both or neither."""

from reports import REPORTS, coverage


def test_every_mark_names_a_known_report() -> None:
    assert set(coverage()) <= set(REPORTS)


def test_every_report_is_covered_or_explained() -> None:
    covered = coverage()
    neither = [name for name in REPORTS if name not in covered and "why_not" not in REPORTS[name]]
    assert not neither
    both = [name for name in REPORTS if name in covered and "why_not" in REPORTS[name]]
    assert not both, "drop the reason: a test exists"
