"""The paper's consumer groups: members that share the partitions of topics without a coordinator.
Each member computes the same assignment from what ZooKeeper holds (cluster/groups/members.py), and
claims its share.
"""
