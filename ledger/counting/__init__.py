"""Counts the batches of logs and reports them to the ledger: in brokers and `penstock audit`."""
