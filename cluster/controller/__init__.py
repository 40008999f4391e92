"""The controller and its writes: topics, partitions' states, reassignments."""
