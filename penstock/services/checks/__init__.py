"""`penstock check-config`: what a program would do with its configuration, and what is wrong."""
