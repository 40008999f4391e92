"""`penstock load`: one load, or one after the other."""
