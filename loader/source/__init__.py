"""The data source `penstock`, but for Spark's own classes: options, what is read, rows."""
