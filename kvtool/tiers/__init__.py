"""KV outside the pool: host memory, disk, a remote store.

Torch-free: a tier moves bytes between its own storage and block memory it is shown
(`memory.BlockViews`).
"""
