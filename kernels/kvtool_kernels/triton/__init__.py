"""The same ops as Triton kernels, one file an op; `reference/` defines what they compute."""
