"""Channels to brokers: opened on demand, ended when they fail, served by one loop.

A short-lived thread opens each connection, because name resolution, TLS, version exchange and login
may block. A broker that cannot be reached, or breaks connections, is tried again after a pause.

Not thread-safe, except for `wake`.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.channel import Channel
from client.connection.connection import BrokerConnection
from client.errors import ClientError, ConnectionLost
from client.patience import NEVER, Pauses


class _Slot(msgspec.Struct):
    """One broker's state: an open channel, one being opened, or a pause before a retry."""

    channel: Channel | None = None
    opening: bool = False
    not_before: float = 0.0
    pauses: Pauses = msgspec.field(default_factory=Pauses)


class ChannelPool:
    """The channels of one producer."""

    def __init__(
        self, client_id: str, access: Access, *, failed: Callable[[Address, ClientError], None]
    ) -> None:
        """`failed` is called from `serve`, as are all callbacks."""
        self._failed = failed
        self._access = access
        self._slots: dict[Address, _Slot] = {}
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = socket.socketpair()
        self._waking.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._arrivals = _Arrivals(client_id, access, self.wake)

    @property
    def who(self) -> str:
        """A description of the client as the brokers see it."""
        return self._access.who

    def channel(self, address: Address, now: float) -> Channel | None:
        """Returns the channel to this broker; if there is none, opens one as soon as pauses allow.
        A channel whose login expires accepts no more requests, and is replaced once all are
        answered."""
        slot = self._slots.setdefault(address, _Slot())
        if slot.channel is not None and slot.channel.spent_at <= now:
            if slot.channel.under_way or slot.channel.wants_to_write:
                return None
            self._selector.unregister(slot.channel)
            slot.channel.close()
            slot.channel = None
        if slot.channel is None and not slot.opening and slot.not_before <= now:
            slot.opening = True
            self._arrivals.open(address)
        return slot.channel

    def channels(self) -> list[Channel]:
        """Returns the open channels."""
        return [slot.channel for slot in self._slots.values() if slot.channel is not None]

    def next_time(self, now: float) -> float:
        """Returns the time when the next pause or deadline ends; `NEVER` if there is none."""
        pauses = [slot.not_before for slot in self._slots.values() if slot.not_before > now]
        answers = [now if channel.failure else channel.deadline for channel in self.channels()]
        return min([*pauses, *answers], default=NEVER)

    def wake(self) -> None:
        """Ends `serve`, from another thread."""
        with suppress(BlockingIOError):  # the pipe is full: it will wake
            self._waking.send(b"\0")

    def serve(self, seconds: float) -> None:
        """Waits for events, at most `seconds`, and handles them."""
        for channel in self.channels():
            self._watch(channel)
        for key, ready_events in self._selector.select(seconds):
            if key.data is None:
                self._woken.recv(4096)
            else:
                self._serve(key.data, ready_events)
        for address, arrival in self._arrivals.take():
            self._arrived(address, arrival)
        now = time.monotonic()
        for channel in self.channels():
            if channel.failure is not None:
                self._end(channel, channel.failure)
            elif channel.deadline < now:
                self._end(channel, ConnectionLost(f"{channel.address}: no answer in time"))

    def close(self) -> None:
        for channel in self.channels():
            channel.close()
        self._slots.clear()
        self._arrivals.close()
        self._selector.close()
        self._waking.close()
        self._woken.close()

    def _watch(self, channel: Channel) -> None:
        events = selectors.EVENT_READ
        if channel.wants_to_write:
            events |= selectors.EVENT_WRITE
        if self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, channel)

    def _serve(self, channel: Channel, ready: int) -> None:
        old_count = channel.answers
        failure: ClientError | None = None
        try:
            if ready & selectors.EVENT_WRITE:
                channel.write()
            if ready & selectors.EVENT_READ:
                channel.read()
        except ClientError as error:
            failure = error
        if channel.answers > old_count:
            self._slots[channel.address].pauses.reset()
        if failure is not None:
            self._end(channel, failure)

    def _arrived(self, address: Address, arrived: BrokerConnection | ClientError) -> None:
        slot = self._slots[address]
        slot.opening = False
        if isinstance(arrived, BrokerConnection):
            slot.channel = Channel(arrived)
            self._selector.register(slot.channel, selectors.EVENT_READ, slot.channel)
        else:
            slot.not_before = time.monotonic() + slot.pauses.next()
            self._failed(address, arrived)

    def _end(self, channel: Channel, error: ClientError) -> None:
        self._selector.unregister(channel)
        slot = self._slots[channel.address]
        slot.channel = None
        if channel.under_way:  # otherwise the broker closed an idle connection
            slot.not_before = time.monotonic() + slot.pauses.next()
        channel.end(error)
        self._failed(channel.address, error)


class _Arrivals:
    """The connections that threads have opened, or the errors that prevented them."""

    def __init__(self, client_id: str, access: Access, wake: Callable[[], None]) -> None:
        self._client_id = client_id
        self._access = access
        self._wake = wake
        self._lock = threading.Lock()
        self._closed = False
        self._arrived: list[tuple[Address, BrokerConnection | ClientError]] = []

    def open(self, address: Address) -> None:
        name = f"open {address}"
        threading.Thread(target=self._open, args=(address,), name=name, daemon=True).start()

    def take(self) -> list[tuple[Address, BrokerConnection | ClientError]]:
        with self._lock:
            arrivals, self._arrived = self._arrived, []
        return arrivals

    def close(self) -> None:
        """Closes all channels. Threads that are still connecting close their connections."""
        with self._lock:
            self._closed = True
            for _, arrival in self._arrived:
                if isinstance(arrival, BrokerConnection):
                    arrival.close()

    def _open(self, address: Address) -> None:
        arrival: BrokerConnection | ClientError
        try:
            arrival = BrokerConnection(address, self._client_id, self._access)
        except ClientError as error:
            arrival = error
        with self._lock:
            if not self._closed:
                self._arrived.append((address, arrival))
                self._wake()
            elif isinstance(arrival, BrokerConnection):
                arrival.close()
