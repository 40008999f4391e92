"""Configuration files: read into types, and explained (`penstock keys`, the tables in docs/)."""
