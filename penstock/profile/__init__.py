"""`penstock profile`."""
