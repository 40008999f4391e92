"""Who writes to the source: librdkafka's idempotent producer with several codecs, a writer by hand
that takes whatever leader it finds, and Penstock's own producer."""

import contextlib
import random
import time
from typing import Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.producing.producer import Producer
from tests.campaigns.cluster.events import Acknowledged, Sent
from tests.campaigns.history import Notes
from tests.system.crash import Worker, value_of
from wire.record_batches.records import Codec

_PATIENCE: Final = 20.0
_CODECS: Final = (Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP)


class OurWriter(Worker):
    """A new producer, and another codec, after each error and from time to time."""

    def __init__(
        self, name: str, history: Notes, bootstrap: str, topic: str, partition: int
    ) -> None:
        super().__init__(name)
        self._history, self._bootstrap = history, bootstrap
        self._topic, self._partition = topic, partition
        self._sent = 0

    def work(self) -> None:
        chance = random.Random(self.name)
        while not self.stopping:
            with contextlib.suppress(ClientError, OSError):
                self._write(chance)
            time.sleep(0.2)

    def _write(self, chance: random.Random) -> None:
        with Brokers(Bootstrap.of(self._bootstrap), patience_seconds=_PATIENCE) as brokers:
            producer = Producer(brokers, self._topic, codec=chance.choice(_CODECS), create=False)
            for _ in range(chance.randint(1, 60)):
                if self.stopping:
                    return
                for _ in range(chance.choice([1, 3, 20])):
                    self._history.note(Sent(self.name, self._sent))
                    value = value_of(self.name, self._sent)
                    producer.send(value, partition=self._partition)
                    self._sent += 1
                for each in producer.flush():
                    offset = -1 if each.base_offset is None else each.base_offset
                    self._history.note(Acknowledged(self.name, self._sent - 1, offset, 0))
                time.sleep(chance.uniform(0.02, 0.3))
