"""The clusters whose ledgers this audit reads: their state, and what it asks them itself."""
