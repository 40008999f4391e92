"""What the tree holds besides topics: brokers, configs, users, ACLs, quotas."""
