"""Files that are rotated while they are written, by the programs that do it in life; and very many.

One agent follows all that rotate at once, which is harder for it than one after the other; each has
a topic, and a verdict, of its own.
"""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.penstock.agent import AgentProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.system.agent.incarnations import check_numbered, check_one_partition
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.agent.writer import Writer

ROTATIONS = 3
PAUSE = 1.1  # between rotations: logrotate's dateext counts seconds
RATE = 1_500
FILES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 1_500
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


class LogRotate:
    """`directives` as in /etc/logrotate.d; whatever they say of when, `rotate` does it now."""

    def __init__(self, path: Path, *directives: str) -> None:
        found = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin:/sbin")
        if found is None:
            pytest.skip("logrotate is not installed")
        self._program = found
        # It refuses directories that others than their owner may write to.
        path.parent.chmod(0o755)
        self._state = path.parent.parent / f"{path.parent.name}.logrotate-state"
        self._config = path.parent.parent / f"{path.parent.name}.logrotate"
        text = "\n    ".join(["rotate 20", "missingok", *directives])
        self._config.write_text(f'"{path}" {{\n    {text}\n}}\n')
        self._config.chmod(0o644)

    def rotate(self) -> None:
        run = subprocess.run(
            [self._program, "--force", "--state", str(self._state), str(self._config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert not run.stderr, run.stderr


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
        inputs.append(site.reads(topic, f"{name}/app.log*"))
        rotated[name] = Rotated(writer, directory, site.topic(topic))
    try:
        with site.agent(*inputs) as agent:
            for each in rotated.values():
                each.writer.start()
            wait_until(
                lambda: all(each.writer.path.exists() for each in rotated.values()),
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
                                    what=f"{writer.path} is read",
                                )
                            logrotate.rotate()
                    else:
                        logrotate.rotate()
            time.sleep(0.5)
            for each in rotated.values():
                each.writer.stop()
            # What is missing is for the verdict on that one to say.
            with suppress(TimeoutError):
                wait_until(partial(_are_shipped, rotated), what="all is shipped")
            stop(agent)
    finally:
        for each in rotated.values():
            each.writer.kill()
    return rotated


def _are_shipped(rotated: dict[str, Rotated]) -> bool:
    for each in rotated.values():
        each.topic.poll(0.0)
    return all(len(each.topic.events) >= each.writer.count for each in rotated.values())


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
def test_thousands_of_files(site: Site, topic: Topic) -> None:
    """All are shipped, with few handles; with nothing to do the agent rests.
    HYPOTHESIS_PROFILE=fuzz has ten thousand."""
    count, most_open = FILES, 256
    files = [site.file(f"{number % 50}/{number}.log", f"file{number}") for number in range(count)]
    for number in range(50):
        (site.logs / f"{number}").mkdir()
    for each in files:
        each.write()
    settings = {"limits": {"open_files": most_open}, "scan_interval": 2.0}
    with site.agent(site.reads(topic, "**/*.log"), settings=settings) as agent:
        topic.wait_for_count(count)
        assert agent.process.open_files() < most_open + 64
        assert len(topic.batches) < count / 20, "small files do not share batches"
        before, began = agent.process.cpu_seconds(), time.monotonic()
        time.sleep(2.0)
        used = (agent.process.cpu_seconds() - before) / (time.monotonic() - began)
        assert used < 0.25, f"{used:.0%} of a core, with nothing to do"
        for each in random.Random(3).sample(files, 200):
            each.write()
        topic.wait_for_count(count + 200)
        assert agent.process.open_files() < most_open + 64
        stop(agent)
    site.check(topic, [each.life for each in files])
