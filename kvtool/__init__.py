"""kvtool: a command-line inference engine and KV-cache microscope."""

__version__ = "0.1.0"
