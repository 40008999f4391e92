"""`penstock backup`: files with the data of a cluster that only ZooKeeper has."""
