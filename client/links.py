"""Channels to brokers: opened when they are asked for, closed when they fail, served together.

A connection is opened by a thread of its own, which ends with it: looking up a name, connecting,
and all that is said before the first request (versions; TLS and SASL, once they are there) may
block there, as `client.connection` does, and nobody else waits. A broker that cannot be reached,
or breaks connections, is tried again after a pause.

One thread at a time, but for `wake`.
"""

from collections.abc import Callable, Iterable

from client.addresses import Address
from client.channel import Channel
from client.errors import ClientError


class Links:
    """The channels of one producer."""

    def __init__(
        self,
        client_id: str,
        *,
        opened: Callable[[Address], None],
        failed: Callable[[Address, ClientError], None],
    ) -> None:
        raise NotImplementedError

    def channel(self, address: Address, now: float) -> Channel | None:
        """The channel to this broker; without one, it is opened as soon as the pauses allow."""
        raise NotImplementedError

    def open_channels(self) -> Iterable[Channel]:
        raise NotImplementedError

    def wake(self) -> None:
        """Ends `serve` in another thread."""
        raise NotImplementedError

    def serve(self, seconds: float) -> None:
        """Waits so long for something to happen, and lets everything happen that can."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
