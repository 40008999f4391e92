"""What stands between two schemas."""
