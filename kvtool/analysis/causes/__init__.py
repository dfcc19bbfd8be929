"""Why each missed token of a replay was missed: a partition that sums to the misses."""

from kvtool.analysis.causes.cause import CAUSES, CauseSpan, RequestCauses
from kvtool.analysis.causes.partition import causes_of

__all__ = ["CAUSES", "CauseSpan", "RequestCauses", "causes_of"]
