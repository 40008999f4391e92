"""`penstock topics`, `produce` and `consume`."""
