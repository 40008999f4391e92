"""What a loader finds beside its runs: files that are not what was committed, damaged batches.

Rule 1: it is said in a journal of its own, one for each load, by whichever table has something.
Rule 2: an entry that may have arrived or not is not written again under its number, nor is its
        number left out: what comes after it is another journal's.

Nothing is kept: what could not be said is found again, and said then.
"""

import socket
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from client.brokers import Brokers
from ledger.names import VERSION
from ledger.publishing import write_entries
from loader.config import LoaderConfig
from loader.ledger.entries import APP
from schemas.registry_client import RegistryClient

Json = dict[str, Any]

_SECOND: Final = 1000


class Observations:
    """Any thread may use it."""

    def __init__(self, config: LoaderConfig) -> None:
        self._config = config
        self._host = socket.gethostname()
        self._lock = threading.Lock()
        self._source = _new_source()
        self._seq = 0

    def tell(
        self,
        brokers: Brokers,
        registry: RegistryClient,
        said: Sequence[Mapping[str, Any]],
        now: int,
        destination: str = "",
    ) -> None:
        """Each of them is the lists of an entry; about the root, unless the ledger knows that by
        another name. Returns when `_audit` has them all. Raises ClientError or SchemaError."""
        if not said:
            return
        with self._lock:
            where = destination or self._config.root
            entries = [
                self._entry(each, self._seq + at, now, where) for at, each in enumerate(said)
            ]
            source, seq = self._source, self._seq + len(entries)
            self._source, self._seq = _new_source(), 0
            write_entries(brokers, registry, entries, timestamp=now)
            self._source, self._seq = source, seq

    def _entry(self, lists: Mapping[str, Any], seq: int, now: int, destination: str) -> Json:
        header = {
            "time": now,
            "host": self._host,
            "app": APP,
            "source": self._source,
            "seq": seq,
            "position": 0,
        }
        return {
            "header": header,
            "version": VERSION,
            "tier": "hdfs",
            "cluster": self._config.cluster,
            "destination": destination,
            "window_millis": self._config.window * _SECOND,
            **lists,
        }


def _new_source() -> str:
    return f"loader-check-{uuid.uuid4().hex}"
