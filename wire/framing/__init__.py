"""Frames, requests and messages of any version, as bytes."""
