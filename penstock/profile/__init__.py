"""`penstock profile`: shows the addresses and credentials that commands use."""
