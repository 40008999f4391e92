"""The interface. Belongs to the event loop."""
