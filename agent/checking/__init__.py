"""`penstock check-config agent`: what would happen, found out without an agent."""
