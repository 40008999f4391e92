"""Counts the events in this broker's logs for the ledger, after they are written, in a separate
process."""
