"""What a schema consists of, and its texts."""
