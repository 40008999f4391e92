"""`penstock schemas`: the schemas of a registry, and files with schemas to register."""
