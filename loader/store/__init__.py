"""Files in a Hadoop filesystem, as a commit needs them: created whole, and only if absent."""
