"""The status of a pipeline, for `penstock status` and the screen of `penstock up`."""
