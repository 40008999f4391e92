"""The paper's consumer groups: members that share the partitions of topics without a coordinator.
Each member computes the same assignment from what ZooKeeper holds (cluster/group_members.py), and
claims its share.
"""
