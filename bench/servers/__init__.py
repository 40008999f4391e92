"""The measured servers, agents and loaders, and their peers."""
