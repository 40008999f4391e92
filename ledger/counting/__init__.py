"""Counts the batches of logs and reports the counts to the ledger, for brokers and for `penstock
audit --count`."""
