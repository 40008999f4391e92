"""`python -m bench.loads.line_consumer PORT TOPIC OFFSET COUNT`: measures the delay of lines.

librdkafka's consumer with its defaults. Prints the line `ready`; after COUNT lines or a timeout,
writes pairs of a line's time and its delay: 64-bit nanoseconds, in the order of arrival.
"""

import gc
import sys
import time
from array import array

from confluent_kafka import Consumer, TopicPartition

from bench.loads.librdkafka import Incomplete

DIGITS = 20  # of the time at a line's end
_PATIENCE = 30.0


def main(port: str, topic: str, begin: str, count: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "bench",  # librdkafka requires one
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, int(begin))])
    consumer.poll(0)
    output = sys.stdout.buffer
    output.write(b"ready\n")
    output.flush()
    pairs = array("q")
    gc.disable()
    while len(pairs) < 2 * int(count):
        message = consumer.poll(_PATIENCE)
        now = time.monotonic_ns()
        if message is None:
            break
        if message.error() is not None:
            raise Incomplete(str(message.error()))
        value = message.value()
        assert value is not None
        due_time = int(value[-DIGITS:])
        pairs.append(due_time)
        pairs.append(now - due_time)
    output.write(pairs.tobytes())
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
