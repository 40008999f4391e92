"""The clients of Go and Node.js at a broker with locks: every mechanism, every listener, and doors
that stay closed. A client is started once, and comes to all of them at the same time."""

import re
from collections.abc import Mapping

import pytest

from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from client.security import Mechanism
from harness.secured_broker import SecuredBroker
from tests.system.other_languages.programs import FRANZ_GO, KAFKAJS, Client, ClientUnavailable
from tests.system.ways_in.doors import CLOSED, OPEN, TOPIC, Door
from tests.system.ways_in.other_languages import TASK, Outcome, come


@pytest.fixture(scope="module", params=[FRANZ_GO, KAFKAJS], ids=lambda each: each.name)
def client(request: pytest.FixtureRequest) -> Client:
    asked: Client = request.param
    try:
        asked.program(TASK)
    except ClientUnavailable as reason:
        pytest.skip(f"{asked.name} cannot be had: {reason}")
    return asked


@pytest.fixture(scope="module")
def outcomes(client: Client, secured: SecuredBroker) -> Mapping[str, Outcome]:
    return come(client, secured, [*OPEN, *CLOSED])


@pytest.fixture(scope="module")
def written(outcomes: Mapping[str, Outcome], secured: SecuredBroker) -> Mapping[int, bytes]:
    """What is there once the client has ended, by offset."""
    with (
        Brokers(secured.bootstrap(Mechanism.SCRAM_SHA_512)) as brokers,
        Consumer(brokers, TOPIC, Beginning(), to_end=True) as consumer,
    ):
        return {each.record.offset: each.record.value or b"" for each in consumer}


@pytest.mark.parametrize("door", OPEN, ids=str)
def test_who_may_comes_in(
    client: Client, outcomes: Mapping[str, Outcome], written: Mapping[int, bytes], door: Door
) -> None:
    outcome = outcomes[str(door)]
    assert outcome.error == ""
    assert written[outcome.offset].decode() == str(door)
    if client.reads:
        assert outcome.read == str(door)


@pytest.mark.parametrize("door", CLOSED, ids=str)
def test_who_may_not_is_told_so(outcomes: Mapping[str, Outcome], door: Door) -> None:
    assert re.search(CLOSED[door], outcomes[str(door)].error)
