"""Consumer groups in ZooKeeper: members, generations, committed offsets."""
