"""What a simulation leaves behind: a page to look at, a timeline, traces for other tools."""
