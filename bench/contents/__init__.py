"""Events, log files, ledgers and topics that are made for it."""
