"""Shows messages of a topic, decoded by the schemas that they name."""
