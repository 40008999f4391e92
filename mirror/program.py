"""`penstock mirror`: one worker in this process, until it is told to stop.

SIGTERM and SIGINT stop it, a second one at once. Killed at any point it goes on where the copies
end: nothing about progress is written down anywhere else.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop

from client.asking import Key
from ground.certificate_expiry import CertificateWatch
from ground.listening import CannotListen
from ground.page_door import BadLocks
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
    copying = standing.copying = Copying(config, Looking(config), accepts=accepts)
    with ExitStack() as ends:
        if config.target.zookeeper:
            copying.share(())

            def share(mine: frozenset[Key]) -> None:
                loop.call_soon_threadsafe(copying.share, mine)

            sharing = standing.sharing = Sharing(config, lambda: copying.copies, share)
            sharing.start()
            ends.callback(sharing.stop)
        if config.groups.sync:
            groups = standing.groups = GroupsSync(config, lambda: copying.ends)
            groups.start()
            ends.callback(groups.stop)
        await copying.run(told)
