"""Which hours are complete, what is done when one is, and hours that are replaced."""
