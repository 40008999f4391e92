"""The parts of a schema, and its texts."""
