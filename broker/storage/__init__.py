"""The logs of partitions, in Kafka's file formats. Imports neither networking nor the broker's
other packages.
"""
