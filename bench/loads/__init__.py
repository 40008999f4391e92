"""What is asked of them."""
