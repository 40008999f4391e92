"""Secrets, and the files and arithmetic of logins."""
