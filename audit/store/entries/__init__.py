"""A chunk's entries, with the ids of the names in them; new entries and conflicting ones."""
