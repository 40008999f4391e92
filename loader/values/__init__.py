"""Values that all parts of a load share, and those that a load stores: manifests and reports."""
