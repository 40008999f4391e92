"""Asks the registries of all clusters whether they answer, every half minute, on a thread of its
own. Reading the ledger needs a registry only for schemas that are new, and so would not notice."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from audit.clusters.state import Standing
from audit.configuration.config import Cluster
from ground.outage import Outage
from ledger.names import SUBJECT
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_EVERY_S: Final = 30.0
_NOTICES_S: Final = 0.2  # that somebody wants to know sooner
_PATIENCE_S: Final = 5.0
_ENDS_WITHIN_S: Final = 1.0

log = logging.getLogger(__name__)


class RegistryLook:
    """`start` it once; what it sees is in the clusters' standing."""

    def __init__(
        self, clusters: Mapping[str, Cluster], standing: Standing, *, every: float = _EVERY_S
    ) -> None:
        self._clusters = clusters
        self._standing = standing
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A request that is under way ends with the process."""
        self._stopping.set()
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        with ExitStack() as ends:
            looks = {
                name: (
                    ends.enter_context(
                        RegistryClient(
                            each.registry_address,
                            patience_seconds=_PATIENCE_S,
                            first_contact_seconds=0,
                            attempt_seconds=_PATIENCE_S,
                        )
                    ),
                    Outage(log, f"asking the registry of {name}"),
                )
                for name, each in self._clusters.items()
            }
            due = 0.0
            while not self._stopping.wait(_NOTICES_S):
                everywhere = time.monotonic() >= due
                for name, (registry, outage) in looks.items():
                    if not everywhere and not self._standing.wants_registry(name):
                        continue
                    began = time.time_ns() // 1_000_000
                    try:
                        registry.latest(SUBJECT)
                        outage.over()
                    except SchemaError as error:
                        outage.failed(error)
                    self._standing.note(name, registry_away=outage.why, registry_looked=began)
                if everywhere:
                    due = time.monotonic() + self._every
