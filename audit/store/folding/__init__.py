"""Turns entries of the ledger into columns for the tables, a chunk at a time."""
