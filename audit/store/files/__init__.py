"""Files: their shipped events, what is missing, and suspect files."""
