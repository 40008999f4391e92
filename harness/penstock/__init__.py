"""Penstock's own programs, as processes, and clusters of them."""
