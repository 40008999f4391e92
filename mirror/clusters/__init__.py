"""What both clusters have, and what the target lacks."""
