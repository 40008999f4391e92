"""Declarations in files: compared with the existing state, shown, and applied."""
