"""Changes on behalf of clients: topics, configs, users, ACLs, quotas, leaders."""
