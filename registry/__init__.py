"""A schema registry that speaks Confluent's interface and keeps its schemas in a topic. What
decides is pure: contents and a request go in, records and an answer come out.
"""
