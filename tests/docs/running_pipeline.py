"""`penstock up`, as the quick start begins it, for all pages that need something to talk to."""

import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from time import sleep
from typing import NamedTuple

from harness.server_process import ServerProcess, free_ports
from penstock.directory.places import Addresses, Places, Ports

START_SECONDS = 90.0
STOP_SECONDS = 30.0
PAGES_TAKE = timedelta(minutes=6)
COMMANDS = Path(sys.executable).parent  # where `penstock` is


class RunningPipeline(NamedTuple):
    """Where it is, and how blocks find it."""

    places: Places
    addresses: Addresses

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PENSTOCK_BOOTSTRAP": self.addresses.brokers,
            "PENSTOCK_REGISTRY": self.addresses.registry,
            "PENSTOCK_AUDIT": self.addresses.audit,
            "PENSTOCK_AGENT": self.addresses.agent,
            "PENSTOCK_BROKER_HTTP": self.addresses.broker_http,
        }

    def aimed(self, text: str) -> str:
        """Text with the addresses of this pipeline in place of the usual ones."""
        for usual, ours in zip(Addresses(), self.addresses, strict=True):
            text = text.replace(usual.removeprefix("http://"), ours.removeprefix("http://"))
        return text


@contextmanager
def running_pipeline(folder: Path, arguments: Sequence[str]) -> Iterator[RunningPipeline]:
    """What `penstock up` starts in this folder, ready; stopped by Ctrl-C."""
    _wait_past_midnight()
    base = _free_base()
    addresses = Addresses.of(Ports.beginning_at(base))
    up = ServerProcess(
        [str(COMMANDS / "penstock"), *arguments, "--port-base", str(base)],
        output=folder / "up.log",
        directory=folder,
    )
    up.spawn()
    try:
        up.wait_ready(lambda: _all_ready(addresses), within=START_SECONDS)
        yield RunningPipeline(Places(folder / "penstock-data"), addresses)
        os.kill(up.pid, signal.SIGINT)
        assert up.wait(within=STOP_SECONDS) == 0, up.last_words()
    finally:
        up.kill()


def _wait_past_midnight() -> None:
    """Pages speak of today."""
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    if (left := midnight - now) < PAGES_TAKE:
        sleep(left.total_seconds())


def _all_ready(addresses: Addresses) -> bool:
    return all(_ready(url) for url in (addresses.registry, addresses.agent, addresses.audit))


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_base() -> int:
    """The first of as many free ports in a row as a pipeline has."""
    while True:
        [base] = free_ports(1)
        if all(_is_free(port) for port in Ports.beginning_at(base)):
            return base


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
