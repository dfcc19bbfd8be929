"""What a trace of requests says about caching them, computed from block accesses alone."""
