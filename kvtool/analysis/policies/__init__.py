"""Eviction policies, replayed over block accesses: one module each."""
