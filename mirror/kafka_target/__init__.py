"""Apache Kafka as a mirror's target: batches are copied without decompression, and a map translates
their offsets."""
