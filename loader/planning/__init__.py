"""Plans what a run reads, before anything is read."""
