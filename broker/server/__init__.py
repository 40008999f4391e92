"""The listening sockets, and the dispatch of their requests to handlers."""
