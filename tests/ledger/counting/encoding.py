"""What a counter's sender needs besides sending, where no registry is there."""

from typing import Final

import msgspec

from ground.signatures.keys import SigningKey
from ledger.counting.batches import Json

COUNTERS_KEY: Final = SigningKey.new()


class EncodesAtOnce:
    """Encodes entries as JSON, as if their schema's id were known."""

    is_connected = True

    def encode(self, entry: Json) -> bytes:
        return msgspec.json.encode(entry)
