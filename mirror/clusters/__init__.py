"""The clusters of a mirror: their common contents, and what the target lacks."""
