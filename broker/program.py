"""`penstock broker`: runs one broker in this process until a signal.

SIGTERM and SIGINT stop it gracefully, a second one at once. The embedded ZooKeeper, if there is
one, starts before the broker and stops after it; it dies with this process however that ends.

A broker needs ZooKeeper to start. If ZooKeeper does not answer at all, the start fails: the address
may be wrong. If it has answered, and then stops responding, everything is undone and tried again.

systemd is notified when clients are served, and from then on that the event loop is alive.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop

from broker.broker import Broker
from broker.configs.config import BrokerConfig
from broker.errors import BrokerError
from broker.storage.errors import StorageError
from cluster.errors import ClusterError, EmbeddedError, NobodyThere, Unavailable
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from ground.network.listening import CannotListen
from ground.systemd import READY, STOPPING, Supervisor, stay_alive

log = logging.getLogger(__name__)

# A thread that has just synced a file waits this long, at most, for the interpreter lock.
_SWITCH_INTERVAL = 0.0005
_LOOK_AFTER_SECONDS = 2.0
_AGAIN_SECONDS = 1.0

CANNOT_START = 1
STOPPED_BY_ITSELF = 1
_GC_THRESHOLDS = (20_000, 20, 20)
_FULL = 2  # the oldest generation
_COUNTED_EVERY = 16  # full collections: counting takes a tenth of the time of examining


def run(config: BrokerConfig) -> int:
    """Serves until a signal arrives; returns the process's exit code."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with ExitStack() as stack:
        try:
            zookeeper, secret = _zookeeper(config, stack)
            return uvloop.run(_serve(config, zookeeper, secret))
        except (BrokerError, StorageError, ClusterError, CannotListen, OSError) as error:
            print(f"penstock broker: {error}", file=sys.stderr)
            return CANNOT_START


def _zookeeper(config: BrokerConfig, stack: ExitStack) -> tuple[str, str | None]:
    """ZooKeeper's address and security settings; starts the embedded one."""
    if not config.embeds_zookeeper:
        return config.zookeeper, config.zookeeper_secret or None
    zookeeper = EmbeddedZooKeeper.start(
        Path(config.zookeeper_dir or Path(config.data_dir) / "zookeeper"),
        config.zookeeper_port,
        jars=Path(config.zookeeper_jars) if config.zookeeper_jars else None,
        guarded=True,
    )
    stack.callback(zookeeper.stop)
    end_event = threading.Event()
    stack.callback(end_event.set)
    threading.Thread(
        target=_keep_running, args=(zookeeper, end_event), name="zookeeper-keeper", daemon=True
    ).start()
    return zookeeper.address, zookeeper.secret


def _keep_running(zookeeper: EmbeddedZooKeeper, ended: threading.Event) -> None:
    """Restart ZooKeeper if it has ended by itself; the broker serves meanwhile."""
    while not ended.wait(_LOOK_AFTER_SECONDS):
        try:
            zookeeper.ensure_running()
        except EmbeddedError as error:
            log.error("cannot start embedded zookeeper error=%r", str(error))


async def _serve(config: BrokerConfig, zookeeper: str, secret: str | None) -> int:
    loop = asyncio.get_running_loop()
    broker = Broker(config)
    supervisor = Supervisor()

    def stop(number: int) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        broker.gone.set()
        loop.remove_signal_handler(number)  # the next one ends the process

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    has_answered = False
    while True:
        try:
            if not await _started(broker, zookeeper, secret):
                return 0
            look_at_what_is_new()
            supervisor.tell(READY)
            alive_task = asyncio.ensure_future(stay_alive(supervisor))
            await broker.gone.wait()
            alive_task.cancel()
            supervisor.tell(STOPPING)
            break
        except Unavailable as error:
            has_answered = has_answered or not isinstance(error, NobodyThere)
            if not has_answered:
                raise
            log.warning("start failed, retrying reason=%r", str(error))
        finally:
            await broker.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(broker.gone.wait(), _AGAIN_SECONDS)
            return 0
        broker = Broker(config)
    if broker.failure:
        print(f"penstock broker: {broker.failure}", file=sys.stderr)
        return STOPPED_BY_ITSELF
    log.info("stopped")
    return 0


async def _started(broker: Broker, zookeeper: str, secret: str | None) -> bool:
    """Whether the broker came up before it was told to stop."""
    start_task = asyncio.ensure_future(broker.start(zookeeper, secret))
    end_task = asyncio.ensure_future(broker.gone.wait())
    await asyncio.wait((start_task, end_task), return_when=asyncio.FIRST_COMPLETED)
    end_task.cancel()
    if not start_task.done():
        start_task.cancel()
        await asyncio.wait((start_task,))
        return False
    start_task.result()
    return True


def look_at_what_is_new() -> None:
    """Makes the garbage collector examine mostly new objects from now on, and long-lived ones
    rarely.

    Topics, partitions and their logs are objects by the hundred thousand, and live as long as the
    broker. A full collection examines all of them and delays every client meanwhile: by 60 ms with
    2,000 partitions. So the survivors of a full collection are frozen, and the next one examines
    only newer objects. Frozen objects that have become garbage are found when everything is
    examined again: as soon as there are twice as many as last time.

    The objects that exist at the call were loaded to stay. Collections are rare: requests make
    objects by the tens of thousands, which are freed without them.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.collect()
    gc.freeze()
    gc.callbacks.append(_SettingAside())


class _SettingAside:
    """Freezes the survivors of full collections. The collector calls it before and after each
    collection."""

    def __init__(self) -> None:
        self._full = 0
        self._looked_at_all = gc.get_freeze_count()

    def __call__(self, phase: str, about: dict[str, Any]) -> None:
        if phase != "stop" or about["generation"] != _FULL:
            return
        gc.freeze()
        self._full += 1
        if self._full % _COUNTED_EVERY == 0:
            frozen_count = gc.get_freeze_count()
            if frozen_count > 2 * self._looked_at_all:
                self._looked_at_all = frozen_count
                gc.unfreeze()  # for the next full collection
