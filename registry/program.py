"""`penstock registry`: runs one registry in this process until it is stopped.

SIGTERM and SIGINT stop it gracefully, a second one at once: the registry takes no more requests,
answers those in progress, and resigns as writer. It reports readiness to systemd, and from then on
that the event loop runs.
"""

import asyncio
import gc
import logging
import signal
import sys
from contextlib import AsyncExitStack

import uvloop

from ground.network.listening import CannotListen
from ground.systemd import READY, STOPPING, Supervisor, stay_alive
from registry.config import RegistryConfig
from registry.errors import RegistryFailure
from registry.http.server import RegistryHttpServer
from registry.registry import Registry
from registry.schemas_topic.contents import RegistryContents

log = logging.getLogger(__name__)

# A write crosses threads; each waits at most this long for the interpreter.
_SWITCH_INTERVAL = 0.0005

_GC_THRESHOLDS = (20_000, 20, 50)

CANNOT_START = 1
STOPPED_BY_ITSELF = 1


def run(config: RegistryConfig) -> int:
    """Serves until a signal arrives; returns the exit code of the process."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    return uvloop.run(_run(config))


async def _run(config: RegistryConfig) -> int:
    loop = asyncio.get_running_loop()
    prefixes = tuple(schemas.subjects for schemas in config.mirrored)
    registry = Registry(config, RegistryContents(config.ids, config.compatibility, prefixes))
    stop_requested = asyncio.Event()

    def stop(signal_number: int) -> None:
        log.info("stopping signal=%s", signal.Signals(signal_number).name)
        stop_requested.set()
        loop.remove_signal_handler(signal_number)  # the next one ends the process

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop, signal_number)
    serve_task = asyncio.ensure_future(_serve(registry))
    stop_signal = asyncio.ensure_future(stop_requested.wait())
    await asyncio.wait((serve_task, stop_signal), return_when=asyncio.FIRST_COMPLETED)
    stop_signal.cancel()
    serve_task.cancel()
    try:
        await serve_task
    except asyncio.CancelledError:
        log.info("stopped")
        return 0
    except (RegistryFailure, CannotListen) as error:
        print(f"penstock registry: {error}", file=sys.stderr)
        return CANNOT_START
    print(f"penstock registry: {registry.failure}", file=sys.stderr)
    return STOPPED_BY_ITSELF


async def _serve(registry: Registry) -> None:
    """Start all parts, run until failure or cancellation, then stop them."""
    async with AsyncExitStack() as ends:
        ends.push_async_callback(registry.stop)
        await registry.start()
        server = RegistryHttpServer(registry, registry.config)
        ends.push_async_callback(server.stop)
        await registry.run_for_writer(server.port)
        await server.start()
        # The contents stay in memory: exclude them from garbage collection.
        if registry.config.is_open_to_anybody:
            log.warning(
                "insecure: reachable by other machines host=%s: %s",
                registry.config.host,
                "no TLS" if registry.config.has_logins else "no login",
            )
        gc.collect()
        gc.freeze()
        # Parsed schemas are many objects that are freed together: collect less often.
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
        alive_task = asyncio.ensure_future(stay_alive(manager))
        ends.callback(alive_task.cancel)
        await registry.gone.wait()
