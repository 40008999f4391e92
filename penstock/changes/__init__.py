"""`penstock changes`: shows changes of topics, configs, ACLs, users, quotas and schemas."""
