"""Connections of clients: their bytes, requests and responses, whatever the routes are."""
