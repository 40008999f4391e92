"""The registry's topic: its records, and the contents that they define."""
