"""The parts of a running audit that read ledgers, write the store, judge, and measure."""
