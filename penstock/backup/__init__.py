"""`penstock backup`: what of a cluster stands in ZooKeeper alone, as a file."""
