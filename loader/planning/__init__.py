"""What one run reads: decided on values, before anything is read."""
