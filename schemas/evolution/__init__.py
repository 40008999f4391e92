"""Comparison of schemas for compatibility."""
