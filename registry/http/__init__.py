"""The HTTP interface. Belongs to the event loop."""
