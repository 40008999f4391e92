"""The commands `penstock topics`, `produce` and `consume`."""
