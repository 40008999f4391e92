"""Kafka's messages, one file per API: the superset of its served versions, and its `API`.

Field names and defaults are those of Kafka's own definitions; times are milliseconds. A field that
some served version lacks has a default. `wire.codec` turns these classes into bytes and back.
"""
