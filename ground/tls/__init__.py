"""TLS of clients and servers, and when certificates expire."""
