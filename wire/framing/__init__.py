"""Frames, requests and messages in any version, as bytes."""
