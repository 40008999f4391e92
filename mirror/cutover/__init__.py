"""Promotion of copies to ordinary topics, and back."""
