"""Tables about files: their shipped events, missing events, and suspect files."""
