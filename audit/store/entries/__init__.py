"""A chunk's entries with the ids of what they name; which of them are new, and which conflict."""
