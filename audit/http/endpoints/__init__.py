"""Handlers of `/api/v1`: each computes an answer from the service."""
