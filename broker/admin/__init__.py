"""Changes that clients ask for: topics, configs, users, ACLs, quotas, leaders."""
