"""`penstock signing-keys`: makes programs' keys, and keeps the folder of those that count."""
