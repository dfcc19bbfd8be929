"""Paged-KV operations. The PyTorch functions in `reference/` are the definition of each."""
