"""Shares of something of which there is so much: by client, so that nobody is refused because of
one who takes all.

A client may have as much as is left for others: one alone half of it, a second one half of the
rest. The broker itself, None, may have all. Belongs to the event loop.
"""

from collections import Counter

from broker.groups.turns import Client


class Shares:
    """`most` is how much there is."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_client: Counter[Client] = Counter()
        self.taken = 0

    def has_room(self, client: Client, more: int) -> bool:
        """Whether the client may have so much more."""
        mine = 0 if client is None else self._by_client[client]
        return mine + more <= self._most - self.taken

    def take(self, client: Client, amount: int) -> None:
        """Whether there is room or not. What is negative is given back."""
        self.taken += amount
        self._by_client[client] += amount
        if not self._by_client[client]:
            del self._by_client[client]
