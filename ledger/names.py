"""The names of the ledger's topic and subject, and constants of its entries."""

from base64 import urlsafe_b64encode
from typing import Final
from uuid import UUID

LEDGER_TOPIC: Final = "_audit"
SUBJECT: Final = f"{LEDGER_TOPIC}-value"
DEAD_SUFFIX: Final = ".dead"  # of the topics of dead letters
VERSION: Final = 1  # of what an entry's fields mean
NOWHERE: Final = -1  # the partition of runs without offsets


def topic_id_text(topic_id: UUID | None) -> str:
    """Returns the id as Kafka's tools print it; empty if the cluster has no topic ids."""
    if topic_id is None or not topic_id.int:
        return ""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
