"""The command line itself: what all commands share. Each command lies in the room of its noun."""
