"""Shows messages of a topic, decoded with the schemas whose ids they contain."""
