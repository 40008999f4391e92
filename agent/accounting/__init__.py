"""The account of every line and byte: runs, cuts, parcels. Pure."""
