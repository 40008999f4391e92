"""A schema registry with Confluent's interface that keeps its schemas in a topic.

Decisions are pure: contents and a request go in, records and an answer come out.
decides is pure: contents and a request go in, records and an answer come out.
"""
