"""Plans a run before anything is read."""
