"""`penstock groups`: who reads together, how far each group is, and where it is to go on."""
