"""Compares a table's files with what its runs committed, and reports differences in the ledger."""
