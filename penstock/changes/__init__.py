"""`penstock changes`: who changed which topic, config, ACL, user, quota or schema, and when."""
