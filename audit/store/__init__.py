"""The folded ledger in SQLite, written by one thread (store.py) and read by any thread
(reading.py)."""
