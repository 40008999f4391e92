"""The transport of the registry client."""
