"""One thin file a command; torch is imported inside commands only."""
