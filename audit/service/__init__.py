"""The parts of a running audit: reading ledgers, writing the store, judging, measuring."""
