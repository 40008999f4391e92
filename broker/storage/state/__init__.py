"""What a log derives from its batches: epochs, producers, snapshots."""
