"""What a broker tells the ledger of its own logs: counted behind them, in a process of its own."""
