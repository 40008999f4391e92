"""`penstock registry`: one registry in this process, until it is told to stop.

SIGTERM and SIGINT stop it gracefully, a second one at once: no more requests are taken, those that
are there are answered, and the office of the writer is left to others. systemd is told when clients
are served, and from then on that the event loop turns.
"""

import asyncio
import gc
import logging
import signal
import sys
from contextlib import AsyncExitStack

import uvloop

from ground.listening import CannotListen
from ground.supervisor import READY, STOPPING, Supervisor, stay_alive
from registry.config import RegistryConfig
from registry.contents import RegistryContents
from registry.errors import RegistryFailure
from registry.http.server import RegistryHttpServer
from registry.registry import Registry

log = logging.getLogger(__name__)

# A write goes from thread to thread: each waits this long, at most, for the interpreter.
_SWITCH_INTERVAL = 0.0005

_GC_THRESHOLDS = (20_000, 20, 50)

CANNOT_START = 1
STOPPED_BY_ITSELF = 1


def run(config: RegistryConfig) -> int:
    """Serve until a signal comes; the process's exit code."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    return uvloop.run(_run(config))


async def _run(config: RegistryConfig) -> int:
    loop = asyncio.get_running_loop()
    prefixes = tuple(each.subjects for each in config.mirrored)
    registry = Registry(config, RegistryContents(config.ids, config.compatibility, prefixes))
    told = asyncio.Event()

    def stop(number: int) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        told.set()
        loop.remove_signal_handler(number)  # the next one ends the process

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    serving = asyncio.ensure_future(_serve(registry))
    told_to_stop = asyncio.ensure_future(told.wait())
    await asyncio.wait((serving, told_to_stop), return_when=asyncio.FIRST_COMPLETED)
    told_to_stop.cancel()
    serving.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        log.info("stopped")
        return 0
    except (RegistryFailure, CannotListen) as error:
        print(f"penstock registry: {error}", file=sys.stderr)
        return CANNOT_START
    print(f"penstock registry: {registry.failure}", file=sys.stderr)
    return STOPPED_BY_ITSELF


async def _serve(registry: Registry) -> None:
    """Bring everything up, until it cannot go on or is cancelled; then undo it."""
    async with AsyncExitStack() as ends:
        ends.push_async_callback(registry.stop)
        await registry.start()
        server = RegistryHttpServer(registry, registry.config)
        ends.push_async_callback(server.stop)
        await registry.run_for_writer(server.port)
        await server.start()
        # What has been read stays: do not look through it again and again.
        if registry.config.is_open_to_anybody:
            log.warning(
                "insecure: other machines reach host=%s, and there is %s",
                registry.config.host,
                "no TLS" if registry.config.has_logins else "no login",
            )
        gc.collect()
        gc.freeze()
        # Parsed schemas are many objects that come and go together: look for rings less often.
        gc.set_threshold(*_GC_THRESHOLDS)
        log.info(
            "registry ready cluster=%s host=%s port=%d topic=%s offset=%d",
            registry.config.cluster,
            registry.config.host,
            server.port,
            registry.config.topic,
            registry.offset,
        )
        manager = Supervisor()
        ends.callback(manager.tell, STOPPING)
        manager.tell(READY)
        alive = asyncio.ensure_future(stay_alive(manager))
        ends.callback(alive.cancel)
        await registry.gone.wait()
