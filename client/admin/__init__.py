"""Administers topics, users, ACLs, quotas and replicas of a cluster."""
