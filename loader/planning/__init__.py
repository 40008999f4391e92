"""Plans a run before it reads anything."""
