"""A task's work: reads a slice and produces the pieces of its files."""
