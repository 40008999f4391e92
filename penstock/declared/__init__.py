"""Declarations in files, which are compared with the existing state, shown, and applied."""
