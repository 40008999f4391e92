"""Values that all parts of a load share, and those that it keeps: manifests and reports."""
