"""Entries of the ledger, a chunk at a time, on their way into tables. Columns in, columns out."""
