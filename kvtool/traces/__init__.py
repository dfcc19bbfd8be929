"""Traces of requests: readers for the formats people have, and one form for all of them."""
