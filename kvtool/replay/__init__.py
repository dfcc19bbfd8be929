"""Replay of traces through the engine: on a virtual clock without weights, or on a real model."""
