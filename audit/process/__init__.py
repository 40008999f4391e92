"""The process: `penstock audit`, its data directory, its metrics, and the external counter."""
