"""What `inspect-cache` finds out about stored KV: no torch, no terminal."""
