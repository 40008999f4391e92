"""The parts of a schema, and the texts that define it."""
