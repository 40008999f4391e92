"""Apache Kafka as a mirror's target: batches go in unopened, and a map says where each has come."""
