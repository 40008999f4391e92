"""Recognises the source of a file, whatever its name is now. `identity` has the rules."""
