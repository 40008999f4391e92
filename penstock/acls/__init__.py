"""Who may do what in a cluster: rules listed, added, removed, and tried."""
