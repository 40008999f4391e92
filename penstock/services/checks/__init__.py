"""`penstock check-config`: predicts what a program would do with its configuration, and finds
problems."""
