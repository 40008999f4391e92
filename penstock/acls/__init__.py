"""`penstock acls`: lists, adds, removes and tests ACLs."""
