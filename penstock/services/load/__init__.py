"""`penstock load`: runs one load, or loads at intervals."""
