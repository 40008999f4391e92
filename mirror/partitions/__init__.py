"""One partition's way from the source to the target."""
