"""Polls the registries of all clusters every half minute, on a thread of its own. Reading the
ledger needs a registry only for new schemas, and would not notice an outage."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from audit.clusters.state import AuditState
from audit.configuration.config import Cluster
from ground.outage import Outage
from ledger.names import SUBJECT
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_EVERY_S: Final = 30.0
_NOTICES_S: Final = 0.2  # until an urgent request is noticed
_PATIENCE_S: Final = 5.0
_ENDS_WITHIN_S: Final = 1.0

log = logging.getLogger(__name__)


class RegistriesPoller:
    """The thread that polls the registries. Call `start` once; the results are in the clusters'
    state."""

    def __init__(
        self, clusters: Mapping[str, Cluster], standing: AuditState, *, every: float = _EVERY_S
    ) -> None:
        self._clusters = clusters
        self._standing = standing
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread, waiting for it up to a limit; a request that is still open then is
        abandoned."""
        self._stopping.set()
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        with ExitStack() as stack:
            registries = {
                name: (
                    stack.enter_context(
                        RegistryClient(
                            cluster.registry_address,
                            patience_seconds=_PATIENCE_S,
                            first_contact_seconds=0,
                            attempt_seconds=_PATIENCE_S,
                        )
                    ),
                    Outage(log, f"asking the registry of {name}"),
                )
                for name, cluster in self._clusters.items()
            }
            next_poll = 0.0
            while not self._stopping.wait(_NOTICES_S):
                is_due = time.monotonic() >= next_poll
                for name, (registry, outage) in registries.items():
                    if not is_due and not self._standing.wants_registry(name):
                        continue
                    start = time.time_ns() // 1_000_000
                    try:
                        registry.latest(SUBJECT)
                        outage.over()
                    except SchemaError as error:
                        outage.failed(error)
                    self._standing.note(name, registry_away=outage.why, registry_looked=start)
                if is_due:
                    next_poll = time.monotonic() + self._every
