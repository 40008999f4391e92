"""The tree's contents besides topics: brokers, configs, users, ACLs, quotas."""
