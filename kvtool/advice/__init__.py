"""Changes to a trace or to the settings that save work, each proven by one more replay."""
