"""The parts that all commands share. Each command is in the package named for its subject."""
