"""A trace in a format that other tools read, and that reads back as the same report."""
