"""The driver's Python environment, packed into one file for executors that have a bare Python."""
