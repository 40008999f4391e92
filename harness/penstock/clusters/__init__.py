"""Clusters of Penstock's brokers, their ZooKeepers, and mirrors between two of them."""
