"""Kafka's messages, one file per API: the superset of the supported versions, and the `API`.

Field names and defaults are those of Kafka's own definitions; times are milliseconds. A field that
some supported version lacks has a default. `wire.framing.codec` encodes and decodes these classes.
"""
