"""docs/how-to/two-datacenters.md: its files are written, its programs started, its commands run,
from nothing to a green verdict.

All on this machine: names of hosts become 127.0.0.1 and their ports free ones, folders and times
are others. What is started and what is run is what the page says.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow.dataset
import pytest

from harness.hadoop.spark_jvm import quick_java_environment
from harness.processes.server_process import ServerProcess, free_ports, http_page
from harness.processes.waiting import wait_until
from tests.docs.pages import ROOT, blocks_of
from tests.penstock.running import PENSTOCK

PAGE: Final = ROOT / "docs" / "how-to" / "two-datacenters.md"
RUN_HERE: Final = "tests/system/mirror/test_how_to.py"  # what the page says of its commands
SERVERS: Final = ("broker", "registry", "agent", "mirror", "audit")
PATIENCE: Final = 600.0
LINES: Final = 200
NOTHING_TO_DO: Final = 3  # of a load
_ADDRESS: Final = re.compile(r"\b((?:dc1|dc2|offline)\.example):(\d+)")
_HOST: Final = re.compile(r"\b(?:dc1|dc2|offline)\.example\b")
_WINDOWED: Final = ("broker", "agent", "mirror", "audit", "load")
_ZOOKEEPER: Final = 2181
_OWN_PORTS: Final = {"broker": 9092, "registry": 8081, "audit": 8090}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Site:
    """The page's hosts, as ports of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = folder / "page"  # its files, as they stand there
        self.written.mkdir()
        self._ports: dict[tuple[str, int], int] = {}
        self._pages: dict[str, int] = {}  # by configuration
        self._since = f"{datetime.now(UTC):%Y-%m-%dT%H:00}"

    def port(self, host: str, port: int) -> int:
        if (host, port) not in self._ports:
            (self._ports[host, port],) = free_ports(1)
        return self._ports[host, port]

    def aimed(self, text: str) -> str:
        """Text of the page, as it is for this machine."""
        text = _ADDRESS.sub(lambda found: f"127.0.0.1:{self.port(found[1], int(found[2]))}", text)
        text = _HOST.sub("127.0.0.1", text)
        text = text.replace("/var/", f"{self.folder}/var/").replace(
            "hdfs://namenode.example:8020", f"file://{self.folder}"
        )
        return text.replace("--day today", f"--from {self._since}")

    def command(self, words: Sequence[str]) -> list[str]:
        """A command of penstock's, with what this machine and little time ask for."""
        name, config = words[1], config_of(words)
        if config:
            raw = (self.written / config).read_text()
            (self.folder / config).write_text(self.aimed(raw))
        given = list(words[1:])
        if "--set" in given:  # the port of a page, which is another one here
            del given[given.index("--set") :]
        return [
            *given,
            *(word for each in self._settings(name, config) for word in ("--set", each)),
        ]

    def _settings(self, name: str, config: str) -> Iterator[str]:
        if name in {"broker", "agent", "mirror"}:
            yield f"http_port={self.page(config)}"
            yield "ledger_interval=0.5"
        if name == "broker":
            yield f"zookeeper_port={self.port(host_of(config), _ZOOKEEPER)}"
        if name in _OWN_PORTS:
            yield f"port={self.port(host_of(config), _OWN_PORTS[name])}"
        if name in _WINDOWED:
            yield "window=5"
        if name == "audit":
            yield "grace=5"

    def page(self, config: str) -> int:
        if config not in self._pages:
            (self._pages[config],) = free_ports(1)
        return self._pages[config]

    def is_ready(self, words: Sequence[str]) -> bool:
        """Of a server that was started so."""
        name, config = words[1], config_of(words)
        own = name in {"registry", "audit"}  # their page is where they serve
        port = self.port(host_of(config), _OWN_PORTS[name]) if own else self.page(config)
        return http_page(port, "/readyz")[0] == 200


def config_of(words: Sequence[str]) -> str:
    return words[words.index("--config") + 1] if "--config" in words else ""


def host_of(config: str) -> str:
    return f"{Path(config).stem.partition('-')[2]}.example"


def test_from_nothing_to_a_green_verdict(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for datacenter in ("dc1", "dc2"):
        logs = tmp_path / "var" / "log" / datacenter
        logs.mkdir(parents=True)
        lines = "".join(f"{datacenter} line {number}\n" for number in range(LINES))
        (logs / "shop.log").write_text(lines)
    with ExitStack() as running:
        for command in commands(site):
            words = shlex.split(command)
            if words[0] == "sed":
                subprocess.run(["bash", "-c", command], cwd=site.written, check=True)
            elif words[1] in SERVERS and "status" not in words:
                start(site, words, running)
            else:
                run_until_it_succeeds(site, words)
    assert sorted(rows(tmp_path)) == sorted(
        f"dc{each} line {n}" for each in (1, 2) for n in range(LINES)
    )


def commands(site: Site) -> Iterator[str]:
    """Those of which the page says so, in its order; its files are written when they come."""
    for block in blocks_of(PAGE):
        if block.file:
            (site.written / block.file).write_text(block.text)
        elif any(RUN_HERE in remark for remark in block.remarks):
            yield from site.aimed(block.text).splitlines()


def start(site: Site, words: Sequence[str], running: ExitStack) -> None:
    process = ServerProcess(
        [*PENSTOCK, *site.command(words)],
        output=site.folder / f"{Path(config_of(words)).stem}.log",
        directory=site.folder,
    )
    running.callback(process.kill)
    process.spawn()
    process.wait_ready(lambda: site.is_ready(words), within=PATIENCE)


def run_until_it_succeeds(site: Site, words: Sequence[str]) -> None:
    given = site.command(words)
    said = []

    def succeeds() -> bool:
        ended = subprocess.run(
            [*PENSTOCK, *given],
            cwd=site.folder,
            env={**os.environ, **quick_java_environment()},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        said.append(f"exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        if ended.returncode == NOTHING_TO_DO:  # also where a load before has landed all, and failed
            return are_landed(site.folder)
        return ended.returncode == 0

    try:
        wait_until(succeeds, within=PATIENCE, what=shlex.join(given), every=1)
    except TimeoutError:
        pytest.fail("\n".join([shlex.join(given), *said]))


def are_landed(folder: Path) -> bool:
    try:
        return len(list(rows(folder))) == 2 * LINES
    except FileNotFoundError:
        return False


def rows(folder: Path) -> Iterator[str]:
    for table in ("dc1.shop", "dc2.shop"):
        found = pyarrow.dataset.dataset(folder / "logs" / table).to_table(["message"])
        yield from found["message"].to_pylist()
