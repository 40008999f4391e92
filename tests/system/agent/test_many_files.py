"""Thousands of files: all are shipped, with few handles; with nothing to do the agent rests.

Four thousand of them; HYPOTHESIS_PROFILE=fuzz makes it ten thousand.
"""

import os
import random
import time

import pytest

from tests.system.agent.incarnations import Incarnation
from tests.system.agent.site import Site, stop

FILES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 4_000
MOST_OPEN = 256


@pytest.mark.slow
@pytest.mark.fuzz
def test_thousands_of_files(site: Site) -> None:
    topic = site.topic(site.new_topic())
    files: list[Incarnation] = []
    for number in range(FILES):
        directory = site.logs / f"{number % 50}"
        directory.mkdir(exist_ok=True)
        life = Incarnation(f"file{number}")
        (directory / f"{number}.log").write_bytes(life.append(life.line(0)))
        files.append(life)
    settings = {"limits": {"open_files": MOST_OPEN}, "scan_interval": 2.0}
    one = {"paths": [f"{site.logs}/**/*.log"], "topic": topic.name}
    with site.agent(one, settings=settings) as agent:
        topic.wait_for_count(FILES, within=40)
        assert agent.process.open_files() < MOST_OPEN + 64
        assert len(topic.batches) < FILES / 20, "small files do not share batches"
        before, began = agent.process.cpu_seconds(), time.monotonic()
        time.sleep(2.0)
        used = (agent.process.cpu_seconds() - before) / (time.monotonic() - began)
        assert used < 0.25, f"{used:.0%} of a core, with nothing to do"
        chance = random.Random(3)
        for number in chance.sample(range(FILES), 500):
            with (site.logs / f"{number % 50}" / f"{number}.log").open("ab") as file:
                file.write(files[number].append(files[number].line(1)))
        topic.wait_for_count(FILES + 500)
        assert agent.process.open_files() < MOST_OPEN + 64
        stop(agent)
    site.check(topic, files)
