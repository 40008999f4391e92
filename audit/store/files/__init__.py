"""Files: what agents shipped of each, what is missing, and which are suspect."""
