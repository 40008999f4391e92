"""One audit at work: reading ledgers, writing the store, judging, measuring."""
