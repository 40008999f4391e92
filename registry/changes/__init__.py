"""What clients ask to register, set or delete, and whether it may be. Pure."""
