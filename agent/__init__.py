"""One agent on a host: what its parts agree on, and the two threads."""
