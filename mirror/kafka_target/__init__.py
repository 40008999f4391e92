"""Apache Kafka as a mirror's target: batches are copied undecompressed, and a map has their
offsets."""
