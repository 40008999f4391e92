"""The logs of partitions, in Kafka's file formats. Imports no networking and no other package of
the broker."""
