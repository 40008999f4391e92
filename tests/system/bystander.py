"""A client that does nothing wrong while others do, and measures how it is served."""

import time

from tests.system.crash import Worker
from tests.system.raw import (
    FETCH,
    PRODUCE,
    RawConnection,
    fetch_body,
    produce_body,
    read_fetched,
    read_produced,
    record_batch,
)


class Bystander(Worker):
    """Writes a record and reads it back, some dozens of times a second, over one connection."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("bystander")
        self.seconds: list[float] = []
        self._address = bootstrap
        self._topic = topic

    def work(self) -> None:
        with RawConnection(self._address) as connection:
            while not self.stopping:
                began = time.monotonic()
                self._write_and_read(connection)
                self.seconds.append(time.monotonic() - began)
                time.sleep(0.02)

    def _write_and_read(self, connection: RawConnection) -> None:
        value = b"number %d" % len(self.seconds)
        body = produce_body(self._topic, 0, record_batch([value]))
        produced = read_produced(connection.ask(PRODUCE, 7, body))
        assert produced.error == 0, produced
        body = fetch_body(self._topic, 0, produced.base_offset, max_bytes=10_000, wait_ms=1000)
        fetched = read_fetched(connection.ask(FETCH, 4, body))
        assert fetched.error == 0, fetched
        assert value in fetched.records

    def finish(self) -> None:
        """Stops; fails if it was ever refused, or kept waiting without measure."""
        super().finish()
        assert self.seconds, "the bystander was never served"
        ordered = sorted(self.seconds)
        middle, longest = ordered[len(ordered) // 2], ordered[-1]
        said = f"bystander: median {middle * 1000:.1f} ms, longest {longest * 1000:.1f} ms"
        print(f"{said}, of {len(ordered)}")
        # Loose: the machine is shared, and what is looked for is standstill.
        assert middle < 0.2, said
        assert longest < 5, said
