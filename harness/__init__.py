"""What tests and benchmarks both start and stop: our programs as processes, and foreign ones."""
