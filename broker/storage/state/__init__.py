"""State derived from a log's batches: epochs, producers, snapshots."""
