"""What became of each line and byte: runs, cuts, parcels. Pure."""
