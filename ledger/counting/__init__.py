"""Counting what lies in a log, for the ledger: by a broker behind its log, or from outside."""
