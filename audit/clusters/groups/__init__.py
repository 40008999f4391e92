"""Consumer groups as known to the brokers: which groups read a topic, and their lag. Shown beside
the verdict, but not part of it."""
