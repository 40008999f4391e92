"""Reads a chunk's entries: assigns ids to the names in them, and finds new and conflicting
entries."""
