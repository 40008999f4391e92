"""A small client of any Kafka cluster: the commands, the registry and the agent stand on it.
Commands block; the producer of finished batches is turned by whoever has a thread for it.
"""
