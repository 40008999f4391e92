"""The JSON of `/api/v1`: its answers, and the queries that it accepts."""
