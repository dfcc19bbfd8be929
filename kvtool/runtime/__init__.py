"""Composition root: from the options of the command line to an engine that answers.

Everything heavy is imported inside functions, so that building a configuration stays cheap.
"""

from kvtool.runtime.runtime import Runtime

__all__ = ["Runtime"]
