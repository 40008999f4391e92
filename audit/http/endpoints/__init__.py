"""The handlers of `/api/v1`, each of which computes an answer from the service."""
