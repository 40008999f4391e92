"""What a broker counts, and its HTTP pages."""
