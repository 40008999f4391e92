"""Records what happens to names in folders, in order, also while no agent runs (decision 129)."""
