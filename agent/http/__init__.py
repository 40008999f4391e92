"""What an agent shows."""
