"""The broker's health for the ledger: its disk, its certificates, its session with
ZooKeeper, logins that it refuses, and damage that it serves.

Each server of the ensemble is asked at most once a minute whether it serves, on another thread. A
cluster without a ledger is not given one for this.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from broker.configs.config import BrokerConfig
from broker.logins.refusals import RefusedLogins
from client.connection.connection import SOFTWARE_VERSION
from cluster.session.session import Session, SessionState
from cluster.view import ClusterView
from cluster.zookeeper_server.status import serving
from ledger.health import Health, HealthProbe, Problem, ZooKeeperSession
from ledger.names import LEDGER_TOPIC

_SERVERS_SECONDS: Final = 60.0


class BrokerHealth:
    """Reads the broker's health. Belongs to the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        session: Session,
        cluster: ClusterView,
        refused_logins: RefusedLogins,
    ) -> None:
        self._session = session
        self._refused_logins = refused_logins
        self._cluster = cluster
        self._tls = config.zookeeper_security.tls
        self._probe = HealthProbe(
            SOFTWARE_VERSION,
            name=str(config.id),
            directories=(config.data_dir,),
            certificates=config.certificate_files,
        )
        self._serving = -1
        self._servers_due = 0.0

    async def now(self, problems: Sequence[Problem]) -> Health | None:
        """Returns the health at this moment, with these problems besides refused logins; None if
        there is no ledger."""
        if LEDGER_TOPIC not in self._cluster.snapshot.topics:
            return None
        all_problems = [*problems, *self._refused_logins.problems]
        return await asyncio.to_thread(self._look, all_problems)

    def _look(self, problems: Sequence[Problem]) -> Health:
        session, now = self._session, time.monotonic()
        if now >= self._servers_due:
            self._servers_due = now + _SERVERS_SECONDS
            self._serving = serving(session.address.hosts, self._tls)
        zookeeper = ZooKeeperSession(
            connected=session.state is SessionState.CONNECTED,
            since=int(session.state_since * 1000),
            servers=len(session.address.hosts),
            serving=self._serving,
        )
        return self._probe.health(zookeeper, problems)
