"""The programs, run in the foreground: agent, audit, broker, registry, zookeeper, load; and
`penstock check-config`, which says what they would do.
"""
