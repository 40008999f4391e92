"""The data source `penstock` without Spark's own classes: options, planning, and rows."""
