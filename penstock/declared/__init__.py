"""Declarations in files: compared with what exists, shown, and carried out."""
