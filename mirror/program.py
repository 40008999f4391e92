"""`penstock mirror`: one worker in this process, until it is told to stop.

SIGTERM and SIGINT stop it, a second one at once. Killed at any point it goes on where the copies
end: nothing about progress is written down anywhere else.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop

from client.fetch_session import Key
from ground.certificate_expiry import CertificateWatch
from ground.listening import CannotListen
from ground.page_door import BadLocks
from ledger.counting.publishing import LedgerWriter
from mirror.acls import AclsSync
from mirror.comparing import Comparing
from mirror.config import MirrorConfig
from mirror.copying import Copying
from mirror.data_directory import held
from mirror.errors import MirrorFailure
from mirror.groups import GroupsSync
from mirror.looking import Looking
from mirror.metrics import MirrorMetrics
from mirror.pages import page_server
from mirror.sharing import Sharing
from mirror.standing import MirrorStanding
from mirror.telling import APP, KIND, Telling
from mirror.told import CopiesThere

CANNOT_START: Final = 1

log = logging.getLogger(__name__)


def run(config: MirrorConfig, accepted: Collection[tuple[str, int | None]] = ()) -> int:
    """Copy until a signal comes; the process's exit code. `accepted`: topics, or partitions of
    them, that may go on behind one gap each."""
    try:
        with ExitStack() as ends:
            ends.enter_context(held(Path(config.data_dir)))
            standing = MirrorStanding(config)
            certificates = CertificateWatch(config.certificate_files)
            server = page_server(standing, MirrorMetrics(standing, certificates.ends))
            ends.callback(server.stop)
            server.start()
            ends.callback(certificates.stop)
            certificates.start()
            log.info(
                "mirror copies name=%s source=%s target=%s http=%s:%d",
                *(config.name, config.source.cluster, config.target.cluster),
                *(config.http_host, server.port),
            )
            # What is there now was loaded to stay: garbage is looked for in what comes.
            gc.collect()
            gc.freeze()
            uvloop.run(_copy(standing, frozenset(accepted)))
    except (MirrorFailure, CannotListen, BadLocks) as error:
        print(f"penstock mirror: {error}", file=sys.stderr)
        return CANNOT_START
    log.info("stopped")
    return 0


async def _copy(standing: MirrorStanding, accepted: frozenset[tuple[str, int | None]]) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def stop(number: signal.Signals) -> None:
        log.info("stopping signal=%s", number.name)
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)  # the next one ends the process
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)

    def accepts(topic: str, partition: int) -> bool:
        return not accepted.isdisjoint({(topic, None), (topic, partition)})

    config = standing.config
    telling = standing.telling = _telling(config)
    copying = standing.copying = Copying(config, Looking(config), accepts=accepts, watcher=telling)
    with ExitStack() as ends:
        if telling is not None:
            telling.start()
            ends.callback(telling.stop)
        if config.target.zookeeper:
            copying.share(())

            def share(mine: frozenset[Key]) -> None:
                loop.call_soon_threadsafe(copying.share, mine)

            sharing = standing.sharing = Sharing(config, lambda: copying.copies, share)
            sharing.start()
            ends.callback(sharing.stop)
        if config.groups.sync:
            groups = standing.groups = GroupsSync(
                config, lambda: copying.ends, lambda: copying.kafka
            )
            groups.start()
            ends.callback(groups.stop)
        if config.acls:
            acls = standing.acls = AclsSync(config, lambda: copying.copied_topics)
            acls.start()
            ends.callback(acls.stop)
        if config.compare.rate:
            comparing = standing.comparing = Comparing(
                config, lambda: copying.seen, lambda: copying.of_same_offsets
            )
            comparing.start()
            ends.callback(comparing.stop)
        await copying.run(told)


def _telling(config: MirrorConfig) -> Telling | None:
    target = config.target
    if not target.registry:
        return None
    writer = LedgerWriter(target.bootstrap, target.registry_address, client_id=APP)
    return Telling(config, writer, CopiesThere(target, client_id=APP, kind=KIND))
