"""What is measured: servers, agents and loaders, and what they are compared with."""
