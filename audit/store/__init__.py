"""The folded ledger in SQLite: kept by one thread (store.py), read by any (reading.py)."""
