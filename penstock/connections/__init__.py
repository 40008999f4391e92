"""How commands reach the programs of a pipeline."""
