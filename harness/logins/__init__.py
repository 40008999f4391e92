"""Certificates, Kerberos, tokens and secrets of tests."""
