"""The control plane of the cache: which block holds which tokens. Never imports torch."""
