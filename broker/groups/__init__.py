"""Consumer groups: who is in a group, what each of its members reads, and how far it has read."""
