"""Producer ids that cannot be guessed and that identify the principal to every broker.

An id is a positive int64: 40 random bits, then 23 bits of a keyed hash of these and of the
principal that it was assigned to. The key is the cluster's, and only brokers can read it. So every
broker can verify an id in every partition, without stored or replicated state: under a new leader,
after a restart, and when a partition has long forgotten the producer.

Ids of another cluster, or from before this one's key was lost, belong to no principal here. A
client whose id is rejected has to request another, which many do only when they restart. The
mirror's batches keep their ids, which are not checked.

Ids that earlier brokers of this cluster assigned in sequence have no owner: after an upgrade their
producers keep them, and any principal with WRITE on a topic can use them there, as before.
"""

import secrets
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from broker.connections.caller import ANONYMOUS
from cluster.records.earlier_producer_ids import COUNTING_BITS

_RANDOM_BITS: Final = 40
_MARK_BITS: Final = 23
_REMEMBERED: Final = 16_384  # ids whose ownership is cached


class ProducerIds:
    """Makes and verifies ids. `key` is the same on all brokers of the cluster.

    Clients without login are one principal, whose ids cannot be told apart. They may use any id,
    unless anonymous clients have rights of their own (`guards_anonymous`). `earlier`: the upper
    bits of ids that earlier brokers assigned.
    """

    def __init__(self, key: bytes, *, guards_anonymous: bool, earlier: int | None = None) -> None:
        self._key = key
        self._guards_anonymous = guards_anonymous
        self._earlier = earlier
        self.belongs = lru_cache(_REMEMBERED)(self._belongs)

    def new(self, principal: str) -> int:
        random_bits = secrets.randbits(_RANDOM_BITS)
        return random_bits << _MARK_BITS | self._mark(random_bits, principal)

    def _belongs(self, producer_id: int, principal: str) -> bool:
        """Whether the principal may use the id. Checked for every batch: answers are cached."""
        if principal == ANONYMOUS and not self._guards_anonymous:
            return True
        if producer_id >> COUNTING_BITS == self._earlier:
            return True
        mark = producer_id & (1 << _MARK_BITS) - 1
        return self._mark(producer_id >> _MARK_BITS, principal) == mark

    def _mark(self, drawn: int, principal: str) -> int:
        message = drawn.to_bytes(8) + principal.encode()
        digest = blake2b(message, digest_size=8, key=self._key, person=b"producer id").digest()
        return int.from_bytes(digest) >> 64 - _MARK_BITS
