"""The configuration file, its receivers of alerts, and the inventory of expected hosts."""
