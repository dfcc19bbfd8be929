"""The disk tier: one safetensors file a run of blocks, and an SQLite index."""
