"""KV on disk: safetensors files named by their content, and an SQLite index over them."""
