"""The commands that run a program in the foreground: agent, audit, broker, registry, zookeeper,
mirror, load; and `penstock check-config`."""
