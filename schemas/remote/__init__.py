"""What the client of a registry stands on."""
