"""The contents that benchmarks use: events, log files, ledgers and topics."""
