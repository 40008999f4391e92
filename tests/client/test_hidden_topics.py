"""A topic that brokers do not show: whoever asks for its leader says what he wants with it.

Between one question and the next a right may be taken away, so a scripted broker takes it.
"""

from collections.abc import Callable, Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import NotAllowed
from client.producing.delivery import TopicPartition
from client.producing.producer_states import producer_states
from client.reading.batches_at import batches_at
from client.reading.epochs import end_offsets_of_epochs
from client.reading.fetcher import Fetcher
from client.reading.offsets import offsets_at
from tests.client.scripted_broker import ScriptedBroker, frame, greeting
from wire.errors import ErrorCode
from wire.framing.requests import read_header
from wire.messages import api_versions, metadata
from wire.messages.list_offsets import LATEST
from wire.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic

_TARGET = TopicPartition("shop", 0)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    def hides(request: memoryview) -> bytes:
        header = read_header(request)
        if header.api_key == api_versions.API.key:
            return greeting(request, {3: (0, 8), 18: (0, 3)})
        said = MetadataResponse(
            brokers=(
                MetadataResponseBroker(
                    node_id=1, host=broker.address.host, port=broker.address.port
                ),
            ),
            topics=(
                MetadataResponseTopic(
                    name=_TARGET.topic,
                    error_code=ErrorCode.topic_authorization_failed,
                    partitions=(),
                ),
            ),
        )
        body = metadata.API.encode_response(header.api_version, said)
        return frame(header.correlation_id, bytes(body))

    with (
        ScriptedBroker([hides] * 1000) as broker,
        Brokers(Bootstrap((broker.address,)), patience_seconds=0) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("ask", "needed"),
    [
        (lambda brokers: offsets_at(brokers, "shop", [0], LATEST), "DESCRIBE"),
        (lambda brokers: end_offsets_of_epochs(brokers, {_TARGET: 0}), "DESCRIBE"),
        (lambda brokers: batches_at(brokers, {_TARGET: 0}), "READ"),
        (lambda brokers: producer_states(brokers, _TARGET), "READ"),
        (lambda brokers: Fetcher(brokers, "shop", {0: 0}).poll(1), "READ"),
    ],
    ids=["offsets", "epochs", "batches", "producers", "fetching"],
)
def test_it_is_said_what_is_wanted_with_it(
    brokers: Brokers, ask: Callable[[Brokers], object], needed: str
) -> None:
    with pytest.raises(NotAllowed, match=rf"needs {needed} on topic shop$"):
        ask(brokers)
