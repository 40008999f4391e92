"""Files that are rotated while they are written, by the programs that do it in life.

One agent follows all of them at once, which is harder for it than one after the other; each has a
topic, and a verdict, of its own.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.agent_process import AgentProcess
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.system.agent.incarnations import check_numbered, check_one_partition
from tests.system.agent.logrotate import LogRotate
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.agent.writer import Writer

ROTATIONS = 3
PAUSE = 1.1  # between rotations: logrotate's dateext counts seconds
RATE = 1_500
FOREVER = 10**9

# A moment for the application to open its new file, as a signal to it would need.
REOPENED = ("postrotate", "    sleep 0.1", "endscript")
LOGROTATE = {
    "create": ("create 0644",),
    "dateext": ("create 0644", "dateext", "dateformat -%Y%m%d-%s"),
    "compress": ("create 0644", "compress", *REOPENED),
    "delaycompress": ("create 0644", "compress", "delaycompress"),
    "copytruncate": ("copytruncate",),
    "copytruncate-compress": ("copytruncate", "compress"),
}
THEMSELVES = {
    "python": {"rotate": "python", "every": RATE // 2, "keep": 50},
    "clock": {"rotate": "clock", "keep": 20},
    "chain": {"rotate": "chain", "every": RATE // 4, "keep": 20},
}


@dataclass
class Rotated:
    """What became of one log."""

    writer: Writer
    directory: Path
    topic: Topic


def rotate_all(site: Site) -> dict[str, Rotated]:
    rotated, rotators, inputs = {}, [], []
    for name in [*LOGROTATE, *THEMSELVES]:
        directory = site.logs / name
        directory.mkdir()
        path, topic = directory / "app.log", site.new_topic()
        if name in LOGROTATE:
            how = "hold" if name.startswith("copytruncate") else "open"
            writer = Writer(path, name, FOREVER, rate=RATE, rotate=how)
            rotators.append((writer, LogRotate(path, *LOGROTATE[name])))
        else:
            writer = Writer(path, name, FOREVER, rate=RATE, **THEMSELVES[name])  # type: ignore[arg-type]
        inputs.append({"paths": [f"{directory}/app.log*"], "topic": topic})
        rotated[name] = Rotated(writer, directory, site.topic(topic))
    try:
        with site.agent(*inputs) as agent:
            for each in rotated.values():
                each.writer.start()
            wait_until(
                lambda: all(each.writer.path.exists() for each in rotated.values()),
                within=20,
                what="all applications write",
            )
            for _ in range(ROTATIONS):
                time.sleep(PAUSE)
                for writer, logrotate in rotators:
                    if "copytruncate" in writer.name:
                        # What is written between copy and truncation nobody could read.
                        with writer.paused():
                            if "compress" in writer.name:  # the copy goes at once
                                wait_until(
                                    partial(_is_read, agent, writer.path),
                                    within=30,
                                    what=f"{writer.path} is read",
                                )
                            logrotate.rotate()
                    else:
                        logrotate.rotate()
            time.sleep(0.5)
            for each in rotated.values():
                each.writer.stop()
            until = time.monotonic() + 60
            for each in rotated.values():
                # What is missing is for the verdict on that one to say.
                with suppress(TimeoutError):
                    each.topic.wait_for_count(each.writer.count, within=until - time.monotonic())
            stop(agent)
    finally:
        for each in rotated.values():
            each.writer.kill()
    return rotated


def _is_read(agent: AgentProcess, path: Path) -> bool:
    size = path.stat().st_size
    status = agent.status()
    return status is not None and any(
        each["path"] == str(path) and each["position"] == size for each in status["files"]
    )


@pytest.fixture(scope="module")
def rotating_site(
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("rotators")
    with Site(running_broker, running_registry.url, directory) as site:
        yield site


@pytest.fixture(scope="module")
def rotated(rotating_site: Site) -> dict[str, Rotated]:
    return rotate_all(rotating_site)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LOGROTATE, *THEMSELVES])
def test_each_line_once(rotating_site: Site, rotated: dict[str, Rotated], name: str) -> None:
    one = rotated[name]
    files = [path.name for path in one.directory.iterdir()]
    assert len(files) > ROTATIONS, f"nothing was rotated: {files}"
    one.topic.read_to_end()
    check_one_partition(one.topic.events)
    check_numbered(one.topic.events, one.writer.lines, one.writer.count)
    accounts = rotating_site.accounts(one.topic)
    assert sum(account.all_lines for account in accounts.values()) == one.writer.count
    assert not any(account.excepted for account in accounts.values())
    assert len(accounts) > ROTATIONS


@pytest.mark.slow
@pytest.mark.fuzz
def test_fifty_thousand_lines_a_second_rotated_every_second(site: Site) -> None:
    rate, seconds, size = 50_000, 3, 200
    topic = site.topic(site.new_topic())
    path = site.logs / "app.log"
    count = rate * seconds
    writer = Writer(path, "fast", count, rate=rate, size=size, rotate="chain", every=rate, keep=2)
    with site.agent({"paths": [f"{site.logs}/app.log*"], "topic": topic.name}) as agent:
        writer.start()
        try:
            writer.finish()
        finally:
            writer.kill()
        topic.wait_for_count(count, within=30)
        stop(agent)
    check_one_partition(topic.read_to_end().events)
    check_numbered(topic.events, writer.lines, count)
    accounts = site.accounts(topic)
    assert len(accounts) == seconds
    assert sum(account.all_lines for account in accounts.values()) == count
