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

from harness.apache_kafka import kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.jvm import Jvm
from tests.system.clients import attempts
from tests.system.topics import create

# Clients are patient for 30 seconds at least: a minute, most of them.
AT_ONCE = 15.0
NOT_SERVED = (
    r"unsupported.?version|unsupported.?feature|IncompatibleBrokerVersion"
    r"|transactional.?id.?authorization.?failed|TransactionalIdAuthorizationException"
    r"|security.?disabled|No Authorizer is configured"  # what is said of ACLs without them
)
JAVAS_WORDS = "The version of API is not supported"
WITHOUT_TRANSACTIONS = "this broker has no transactions"
LIBRARIES = {
    "librdkafka": attempts.LIBRDKAFKA,
    "kafka-python": attempts.KAFKA_PYTHON,
    "aiokafka": attempts.AIOKAFKA,
}


@pytest.fixture(scope="module")
def topic(running_broker: BrokerProcess) -> str:
    create(running_broker.bootstrap, "asked-about")
    return "asked-about"


@pytest.fixture(scope="module")
def java() -> Iterator[Jvm]:
    classpath = kafka_classpath()
    if classpath is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    with Jvm(classpath) as running:
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


@pytest.mark.parametrize(
    ("client", "name"), [(client, name) for client, all_ in LIBRARIES.items() for name in all_]
)
def test_a_client_is_told_at_once(
    running_broker: BrokerProcess, topic: str, client: str, name: str
) -> None:
    attempt = LIBRARIES[client][name]
    said = what_ended(lambda: attempt(running_broker.bootstrap, topic))
    assert re.search(NOT_SERVED, said, re.IGNORECASE), said


@pytest.mark.parametrize("name", attempts.JAVA)
def test_javas_clients_are_told_at_once(
    running_broker: BrokerProcess, topic: str, java: Jvm, name: str
) -> None:
    attempt = attempts.JAVA[name]
    said = what_ended(lambda: attempt(java, running_broker.bootstrap, topic))
    assert re.search(f"{NOT_SERVED}|{JAVAS_WORDS}", said, re.IGNORECASE), said


@pytest.mark.parametrize(
    ("client", "name", "words"),
    [
        ("librdkafka", "init transactions", WITHOUT_TRANSACTIONS),
        ("kafka-python", "describe transactions", WITHOUT_TRANSACTIONS),
    ],
)
def test_the_user_is_told_what_it_is(
    running_broker: BrokerProcess, topic: str, client: str, name: str, words: str
) -> None:
    attempt = LIBRARIES[client][name]
    assert words in what_ended(lambda: attempt(running_broker.bootstrap, topic))
