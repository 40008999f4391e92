"""The tree of nodes in ZooKeeper: their names, paths and contents."""
