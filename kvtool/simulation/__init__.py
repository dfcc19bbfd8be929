"""`kvtool simulate-agent`: a trace replayed, measured and explained, as one document."""
