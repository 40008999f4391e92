"""The paper's consumer groups: members that share the partitions of topics among them, without a
master. Each computes the same assignment from what stands in ZooKeeper (cluster/group_members.py),
and claims what is its own.
"""
