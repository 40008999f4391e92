"""The work of a task: reads a slice and produces the pieces of its files."""
