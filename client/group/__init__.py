"""The paper's consumer groups: members that share the partitions of topics without a coordinator.
Each member computes the same assignment from ZooKeeper's contents (cluster/groups/members.py), and
claims its share."""
