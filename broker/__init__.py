"""A broker: one process, one event loop; clients on one side, logs on the other, the map beside."""
