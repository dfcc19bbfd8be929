"""Shifted reuse, planned: which cached text stands elsewhere in a prompt. Never imports torch."""
