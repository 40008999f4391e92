"""Writes and reads a topic for some time, across lost connections."""

import time

from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning


def write_and_read_for(seconds: float, brokers: Brokers, topic: str) -> None:
    """Use a new topic; every message arrives once and in order."""
    create_topic(brokers, topic)
    producer = Producer(brokers, topic, batch_bytes=10_000)
    until = time.monotonic() + seconds
    sent = got = 0
    with Consumer(brokers, topic, Beginning()) as consumer:
        while time.monotonic() < until or got < sent:
            if time.monotonic() < until:
                for _ in range(20):
                    producer.send(b"%d" % sent)
                    sent += 1
                producer.flush()
            time.sleep(0.02)  # a load that leaves something of the processor
            for message in consumer.poll(0.1):
                assert message.record.value == b"%d" % got
                got += 1
