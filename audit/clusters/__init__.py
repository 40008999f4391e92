"""The clusters whose ledgers this audit reads: their state, polled from their servers."""
