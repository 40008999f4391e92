"""A broker: one process with one event loop, which serves clients from its logs and follows the
cluster's map."""
