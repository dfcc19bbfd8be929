"""The gate of shifted reuse: how far its logits are from those of a full recompute, on this model.

Moved KV is approximate, and how much that matters depends on the model. So nobody gets it before
it was measured: on a built-in set of prompts, through the real engine, against stated limits. The
record is kept in the cache folder.
"""
