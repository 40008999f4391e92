"""Shows messages of a topic: what stands at some offsets, decoded by the schemas they name."""
