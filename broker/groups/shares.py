"""Divides a limited amount among clients, so that none is refused because another takes everything.

A client may have as much as is left for others: alone, half of it; a second one, half of the rest.
The broker itself, None, may have everything. Belongs to the event loop.
"""

from collections import Counter

from broker.groups.turns import Client


class Shares:
    """A limited amount, shared among clients. `most` is the total."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_client: Counter[Client] = Counter()
        self.taken = 0

    def has_room(self, client: Client, more: int) -> bool:
        """Whether the client may take this much more."""
        held = 0 if client is None else self._by_client[client]
        return held + more <= self._most - self.taken

    def take(self, client: Client, amount: int) -> None:
        """Take an amount, even if there is no room. A negative amount is given back."""
        self.taken += amount
        self._by_client[client] += amount
        if not self._by_client[client]:
            del self._by_client[client]
