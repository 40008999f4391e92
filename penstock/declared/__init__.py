"""What a file says that there should be: compared with what there is, shown, and brought about."""
