"""`penstock changes`: shows who changed which topic, config, ACL, user, quota or schema."""
