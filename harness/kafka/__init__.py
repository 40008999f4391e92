"""Apache Kafka and what comes with it."""
