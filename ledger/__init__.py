"""Writes entries to the ledger topic `_audit`, reads them as columns, and counts logs for it."""
