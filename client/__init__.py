"""A small client for any Kafka cluster, used by the commands, the registry, the agent and other
programs. Commands block; the producer of finished batches runs on the thread that calls `pump`."""
