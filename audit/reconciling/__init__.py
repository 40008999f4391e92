"""Whether what one place says of a topic is what the next one says. Pure."""
