"""The remote tier on a Mooncake Store."""
