"""A real ZooKeeper as a child process: its files, its start, its status."""
