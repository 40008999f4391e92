"""One group of Kafka's classic protocol: members, generations, assignments. No clock, no I/O."""
