"""A chunk's entries, with the ids of the names in them; new and conflicting entries."""
