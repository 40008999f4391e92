"""Spark in a child process."""
