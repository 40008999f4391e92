"""What Penstock does not serve ends at once in every client, with an error that says so.

A client that takes an answer for "not yet" asks again without a word, and its user sees a program
that hangs.
"""

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Iterator

import pytest
from py4j.protocol import Py4JJavaError

from harness.java.jvm import Jvm
from harness.kafka.apache_kafka import VERSION
from harness.penstock.broker import BrokerProcess
from tests.system.clients import attempts
from tests.system.conftest import kafka_java
from tests.system.topics import create

# Clients are patient for 30 seconds at least: a minute, most of them.
AT_ONCE = 15.0
NOT_SERVED = (
    r"unsupported.?version|unsupported.?feature|IncompatibleBrokerVersion"
    r"|API version not supported"  # librdkafka
    r"|security.?disabled|No Authorizer is configured"  # what is said of ACLs without them
)
JAVAS_WORDS = "The version of API is not supported"
WITHOUT_TRANSACTIONS = "this broker does not support transactions"
# Where a client shows its user the broker's words.
SHOWN = (
    "librdkafka: init transactions",
    "kafka-python: describe transactions",
    "init transactions",
)


@pytest.fixture(scope="module")
def java() -> Iterator[Jvm]:
    with kafka_java(VERSION) as running:
        yield running


def what_ended(attempt: Callable[[], object]) -> str:
    """What the exception says that the attempt ended by, in time."""
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put(f"it was served: {attempt()!r}")
        except Py4JJavaError as error:
            ended.put(str(error.java_exception))
        except Exception as error:  # noqa: BLE001  # each client has exceptions of its own
            ended.put(repr(error))

    threading.Thread(target=run, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return ended.get(timeout=AT_ONCE)
    raise AssertionError(f"it has not ended after {AT_ONCE:g} s")


@pytest.mark.parametrize("name", attempts.LIBRARIES)
def test_a_client_is_told_at_once(running_broker: BrokerProcess, name: str) -> None:
    said = what_ended(lambda: attempts.LIBRARIES[name](running_broker.bootstrap))
    check(name, said)


@pytest.mark.parametrize("name", attempts.JAVA)
def test_javas_clients_are_told_at_once(
    running_broker: BrokerProcess, new_topic: str, java: Jvm, name: str
) -> None:
    create(running_broker.bootstrap, new_topic)
    said = what_ended(lambda: attempts.JAVA[name](java, running_broker.bootstrap, new_topic))
    check(name, said)


def check(name: str, said: str) -> None:
    words = WITHOUT_TRANSACTIONS if name in SHOWN else f"{NOT_SERVED}|{JAVAS_WORDS}"
    assert re.search(words, said, re.IGNORECASE), said
