"""Logs of partitions, in Kafka's file formats. Imports no networking and nothing of the broker
above it.
"""
