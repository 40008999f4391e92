"""What the broker that has the office of controller does for all of them."""
