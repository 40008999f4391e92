"""The handlers of `/api/v1`. Each computes its answer from the service."""
