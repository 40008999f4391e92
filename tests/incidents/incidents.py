"""Twelve incidents, each a function: it breaks one thing, has the site say so, and has it cured.

A docstring's first line is the heading in docs/incidents.md; the rest says what happens, and what a
person sees.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from penstock.directory.places import Places
from tests.broker.storage.log_files import flip
from tests.elsewhen.clock import VARIABLE, Clock, compile_clock
from tests.incidents.site import PATIENCE, WINDOW, Site
from tests.system.small_disk import mounted_disk

TOPIC: Final = "shop"
_MIB: Final = 2**20

Take = Callable[..., None]  # waits for an alert of some kinds, and keeps what is to be seen


class Incident(NamedTuple):
    """How it is played, and the site that it needs."""

    play: Callable[[Site, Take], None]
    mirror: bool = False
    around: Callable[[Places], AbstractContextManager[None]] = lambda _: nullcontext()


def agent_killed(site: Site, take: Take) -> None:
    """Agent killed and file deleted

    The agent on web-1 is killed. While it is away, the application writes 300 lines, and its log
    file is deleted. The agent is started again, finds that the file has gone, and the audit says
    that it cannot know what was in it.
    """
    agent, shop = site.host("web-1", TOPIC)
    site.settle()
    shop.pause()
    site.wait_read(agent)
    agent.kill()
    shop.write(300)
    shop.path.unlink()
    site.lost = 300
    site.broke()
    agent.process.spawn()
    shop.go_on(shop.path.with_name("shop-2.log"))
    take("unknown")


def landed_file_removed(site: Site, take: Take) -> None:
    """Landed file removed

    Somebody deletes a Parquet file of the warehouse. The next load compares the files with what it
    has committed, and reports the one that is gone.
    """
    site.host("web-1", TOPIC)
    site.settle()
    files = site.places.warehouse.glob(f"{TOPIC}/dt=*/hour=*/*.parquet")
    max(files, key=lambda file: file.stat().st_size).unlink()
    site.broke()
    take("missing")


def segment_cut(site: Site, take: Take) -> None:
    """Segment cut

    The broker is killed, and the last third of a partition's segment is cut off on its disk, as the
    repair of a file system may do. When the broker is back, it notices that acknowledged messages
    are gone.
    """
    agent, shop = site.host("web-1", TOPIC)
    site.settle()
    shop.pause()
    site.wait_read(agent)
    wait_until(lambda: len(site.landed(TOPIC)) == len(shop.lines), within=PATIENCE, what="landed")
    log = _segment(site.places.data("broker") / f"{TOPIC}-0")
    os.kill(site.up.programs()["broker"], signal.SIGKILL)
    os.truncate(log, log.stat().st_size * 2 // 3)
    site.broke()
    shop.go_on()
    take("unloaded", "missing")


def segment_flipped(site: Site, take: Take) -> None:
    """Segment flipped

    A bit of a stored message flips on the disk of the second of two brokers, after the rows have
    landed. The broker reads young segments again and again, and finds the batch whose checksum is
    wrong. As the runbook says, the partition's directory is removed while that broker is stopped,
    and it copies the partition from the other one.
    """
    second = _two_brokers(site)
    described = json.loads(site.run(f"penstock topics describe {TOPIC} --json").output)
    led = next(each["partition"] for each in described["partitions"] if each["leader"] == 2)
    partition = second.partition_dir(TOPIC, led)
    site.host("web-1", TOPIC)
    wait_until(lambda: _segment(partition).stat().st_size, within=PATIENCE, what="lines are there")
    site.settle()
    flip(_segment(partition), _segment(partition).stat().st_size // 3)
    site.broke()
    take("changed")
    site.by_hand("broker 2 is stopped, the partition's directory removed, and broker 2 started")
    second.terminate()
    shutil.rmtree(partition)
    site.tools["penstock-broker@broker 2"]()


def _segment(partition: Path) -> Path:
    (file,) = partition.glob("*.log")
    return file


def silent_host(site: Site, take: Take) -> None:
    """Silent host

    The agent on web-2 is killed and nothing starts it. Its application goes on writing.
    """
    site.host("web-1", TOPIC)
    agent, _ = site.host("web-2", "orders")
    site.settle()
    agent.kill()
    site.broke()
    take("silent")


def registry_hung(site: Site, take: Take) -> None:
    """Registry hung

    The schema registry takes connections and answers nothing. Agents go on with the schemas that
    they know, and loads wait.
    """
    site.host("web-1", TOPIC)
    site.settle()
    os.kill(site.up.programs()["registry"], signal.SIGSTOP)
    site.broke()
    take("away")


def broker_away(site: Site, take: Take) -> None:
    """Broker away

    Two brokers hold the topic; the second one is killed. The first one serves the topic meanwhile.
    """
    second = _two_brokers(site)
    site.host("web-1", TOPIC)
    site.settle()
    second.kill()
    site.broke()
    take("away")


def _two_brokers(site: Site) -> BrokerProcess:
    """The second one, which leads a part of the topic."""
    second = BrokerProcess(
        site.directory / "broker-2",
        zookeeper=f"127.0.0.1:{site.ports.zookeeper}",
        broker_id=2,
        settings={
            "cluster": "local",
            "window": WINDOW,
            "ledger_interval": 2,
            "registry": f"http://127.0.0.1:{site.ports.registry}",
            "zookeeper_secret_file": str(site.places.data("zookeeper") / "secret"),
            "checks": {"young_seconds": 30},
        },
    )
    site.program(second, "penstock-broker", "broker 2")
    site.broker_pages.append(f"http://127.0.0.1:{second.http_port}")
    wait_until(second.ready, within=PATIENCE, what="two brokers")
    created = site.run(f"penstock topics create {TOPIC} --partitions 2 --replication-factor 2")
    assert created.code == 0, created
    return second


def disk_full(site: Site, take: Take) -> None:
    """Disk full

    The disk with the broker's data is full. Agents keep what they cannot ship in the log files. The
    ledger takes no entries either, so no agent is heard; the audit asks the broker itself. What is
    cured by hand is the disk.
    """
    site.host("web-1", TOPIC)
    site.settle()
    filler = site.places.data("broker") / "filler"
    command = ["dd", "if=/dev/zero", f"of={filler}", "bs=64k"]
    subprocess.run(command, capture_output=True, check=False)
    site.broke()
    take("disk")
    site.by_hand("room is made on the disk that `penstock status` names")
    filler.unlink()


@contextmanager
def small_disk(places: Places) -> Iterator[None]:
    """The broker's data are on a disk of 64 MiB."""
    with mounted_disk(places.directory.parent, 64) as disk:
        places.directory.mkdir()
        places.data("broker").symlink_to(disk)
        yield


def schema_incompatible(site: Site, take: Take) -> None:
    """Schema incompatible

    While the shop is stopped for a release, somebody registers a schema in which `amount` is a
    string and no number any more. The table's files have numbers, so the lines that have not landed
    yet cannot be loaded.
    """
    _register(site, "long")
    _, shop = site.host("web-1", TOPIC, lambda number: _order(number, number))
    site.settle()
    site.run(f"penstock schemas config {TOPIC}-value --set NONE")
    shop.write(500)
    shop.pause()
    _register(site, "string")
    site.broke()
    take("unloaded")


def dead_letters(site: Site, take: Take) -> None:
    """Dead letters: 5 %

    After a release, one line in twenty has an amount that is no number. Its lines are in the
    dead-letter topic, with the reason; the former release is brought back.
    """
    _register(site, "long")
    _, shop = site.host("web-1", TOPIC, lambda number: _order(number, number))
    site.settle()
    shop.line = lambda number: _order(number, "n/a" if number % 20 == 0 else number)
    site.broke()
    take("dead")
    for command in site.shown_commands():
        site.type(command)
    site.by_hand("the former release of the shop is brought back, and writes 8,000 lines")
    shop.line = lambda number: _order(number, number)
    shop.write(8_000)  # the share is that of an hour


def _order(number: int, amount: object) -> str:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    return json.dumps({"at": now, "order": number, "amount": amount})


def _register(site: Site, amount: str) -> None:
    file = f"{TOPIC}-value.avsc"
    fields = f"--field order=long --field amount={amount}"
    (site.directory / file).unlink(missing_ok=True)
    for command in (f"new {TOPIC} --record shop.Order {fields}", f"register {file}"):
        ran = site.run(f"penstock schemas {command}")
        assert ran.code == 0, ran


def clock_off(site: Site, take: Take) -> None:
    """Clock three hours off

    The clock of web-2 is three hours behind. Its agent reports, and what it says is about a time
    that was over long ago.
    """
    clock = Clock(site.directory / "clock")
    clock.be_ahead(0)
    environment = {"LD_PRELOAD": str(compile_clock(site.directory)), VARIABLE: str(clock.file)}
    site.host("web-1", TOPIC)
    site.host("web-2", "orders", environment=environment)
    site.settle()
    site.tools["clock@web-2"] = lambda: clock.be_set_by(-clock.ahead())
    clock.be_ahead(-3 * 3600)
    site.broke()
    take("clock")


def mirror_cut_off(site: Site, take: Take) -> None:
    """Mirror cut off

    The mirror hears nothing of either cluster: it is frozen, as if its network were gone.
    """
    site.host("web-1", TOPIC)
    site.settle()
    os.kill(site.up.programs()["mirror"], signal.SIGSTOP)
    site.broke()
    take("mirror")


INCIDENTS: Final = {
    "agent-killed": Incident(agent_killed),
    "landed-file-removed": Incident(landed_file_removed),
    "segment-cut": Incident(segment_cut),
    "segment-flipped": Incident(segment_flipped),
    "silent-host": Incident(silent_host),
    "registry-hung": Incident(registry_hung),
    "broker-away": Incident(broker_away),
    "disk-full": Incident(disk_full, around=small_disk),
    "schema-incompatible": Incident(schema_incompatible),
    "dead-letters": Incident(dead_letters),
    "clock-off": Incident(clock_off),
    "mirror-cut-off": Incident(mirror_cut_off, mirror=True),
}
