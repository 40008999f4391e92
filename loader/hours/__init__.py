"""Which hours are complete, and what is done when one is."""
