"""`penstock groups`: consumer groups, their lag, and changes of their offsets."""
