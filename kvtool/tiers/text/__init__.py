"""The text of stored KV, found at any offset of a prompt: donors that lie below the pool."""
