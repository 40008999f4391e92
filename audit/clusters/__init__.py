"""The clusters whose ledgers this audit reads, and their state, polled from their servers."""
