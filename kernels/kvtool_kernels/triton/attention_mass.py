"""The reference serves CUDA as well: it is called once a request, with a few hundred rows."""

from kvtool_kernels.reference.attention_mass import attention_mass

__all__ = ["attention_mass"]
