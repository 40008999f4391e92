"""What an agent remembers over restarts and crashes (decision 17)."""
