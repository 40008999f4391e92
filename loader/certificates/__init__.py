"""Certificates of complete hours, which the audit and the loader sign."""
