"""A session with ZooKeeper. The only package that imports kazoo."""
