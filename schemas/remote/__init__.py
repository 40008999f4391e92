"""The transport of the registry client: addresses, requests and answers."""
