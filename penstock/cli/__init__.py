"""The parts that all commands share. Each command is in the package of its noun."""
