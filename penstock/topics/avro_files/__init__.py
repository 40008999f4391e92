"""Avro container files, which `consume` writes and `produce` reads."""
