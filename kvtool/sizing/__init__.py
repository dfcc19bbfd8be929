"""How many bytes a model's KV cache takes: pure arithmetic, no torch, no weights."""
