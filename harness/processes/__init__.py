"""Child processes, links between them, and waiting for them."""
