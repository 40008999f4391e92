"""The process: `penstock audit`, its data directory, its metrics, and `penstock audit --count`."""
