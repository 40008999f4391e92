"""The agent is killed at random instants under load: no line is lost, and none is there twice.

Not after duplicates were removed, but in the log itself; on Penstock's broker and on Apache Kafka.
The instants are drawn from a seed, which a failure prints; PENSTOCK_AGENT_SEED repeats it,
PENSTOCK_AGENT_KILLS changes the number of kills.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from harness.agent_process import AgentProcess
from tests.system.agent.events import json_input, typed_topic
from tests.system.agent.incarnations import check_numbered, check_one_partition
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.agent.writer import Writer
from tests.system.faults import Faults

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
A_CAMPAIGN = 100
KILLS_IN_START_UP = 0.2
DAY_MILLIS = 86_400_000


def kills(usually: int) -> list[int]:
    """How often to kill, in campaigns that each begin with an empty data directory."""
    wanted = int(os.environ.get("PENSTOCK_AGENT_KILLS", 1000 if LONG else usually))
    return [min(A_CAMPAIGN, wanted - begun) for begun in range(0, wanted, A_CAMPAIGN)]


@pytest.fixture
def chance() -> random.Random:
    seed = os.environ.get("PENSTOCK_AGENT_SEED") or str(random.SystemRandom().getrandbits(32))
    print(f"PENSTOCK_AGENT_SEED={seed}")
    return random.Random(seed)


@dataclass
class Load:
    """Two applications that write and rotate: plain lines, and events of three days ago."""

    site: Site
    plain: Topic
    old: Topic
    writers: tuple[Writer, Writer]

    @classmethod
    def on(cls, site: Site) -> "Load":
        plain, old = site.new_topic(partitions=3), typed_topic(site)
        since = (time.time_ns() // 1_000_000) - 3 * DAY_MILLIS
        rolling = {"rotate": "chain", "every": 3_000, "keep": 5_000}
        forever = 10**9
        writers = (
            Writer(site.logs / "plain.log", "plain", forever, **rolling),  # type: ignore[arg-type]
            Writer(site.logs / "old.log", "old", forever, since=since, **rolling),  # type: ignore[arg-type]
        )
        return cls(site, site.topic(plain), site.topic(old), writers)

    def agent(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> AgentProcess:
        logs = self.site.logs
        return self.site.agent(
            {"paths": [f"{logs}/plain.log*"], "topic": self.plain.name},
            json_input(self.old.name, f"{logs}/old.log*"),
            settings=settings,
            environment=environment,
        )

    def __enter__(self) -> "Load":
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.kill()

    def stop_writing(self) -> None:
        for writer in self.writers:
            writer.stop()
            assert writer.count > 0

    def judge(self, agent: AgentProcess, *, within: float = 60) -> None:
        """Once the agent that runs has shipped everything."""
        for topic, writer in zip((self.plain, self.old), self.writers, strict=True):
            topic.wait_for_count(writer.count, within=within)
        stop(agent)
        for topic, writer in zip((self.plain, self.old), self.writers, strict=True):
            topic.read_to_end()
            check_one_partition(topic.events)
            check_numbered(topic.events, writer.lines, writer.count)
            accounts = self.site.accounts(topic).values()
            assert sum(account.all_lines for account in accounts) == writer.count
            assert not any(account.excepted for account in accounts)


def kill_under_load(
    load: Load,
    agent: AgentProcess,
    chance: random.Random,
    count: int,
    *,
    after_kill: Callable[[], None] = lambda: None,
) -> None:
    with load:
        for _ in range(count):
            if chance.random() < KILLS_IN_START_UP:
                agent.spawn()
                time.sleep(chance.uniform(0.1, 1.0))
            else:
                agent.start()
                time.sleep(chance.uniform(0.0, 0.6))
            assert agent.alive, agent.process.last_words()
            agent.kill()
            after_kill()
        load.stop_writing()
        agent.start()
        load.judge(agent)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=3))
def test_on_penstock(site: Site, chance: random.Random, count: int) -> None:
    load = Load.on(site)
    kill_under_load(load, load.agent(), chance, count)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=2))
def test_on_apache_kafka(kafka_site: Site, chance: random.Random, count: int) -> None:
    load = Load.on(kafka_site)
    kill_under_load(load, load.agent(), chance, count)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=3))
def test_power_lost(site: Site, chance: random.Random, faults: Faults, count: int) -> None:
    """Of the agent's own files only what was synced is surely there. It syncs if it is told to."""
    load = Load.on(site)
    agent = load.agent(settings={"journal_sync": True}, environment=faults.environment)

    def lose_power() -> None:
        if agent.data_dir.exists():
            faults.lose_power(agent.data_dir, chance)

    kill_under_load(load, agent, chance, count, after_kill=lose_power)


@pytest.fixture
def loaded(site: Site) -> Iterator[Load]:
    with Load.on(site) as load:
        yield load


@pytest.mark.slow
@pytest.mark.fuzz
def test_agent_and_broker_killed_together(loaded: Load, chance: random.Random) -> None:
    """What was under way may be in the log or not when both come back."""
    broker = loaded.site.server
    agent = loaded.agent()
    for _ in range(20 if LONG else 1):
        agent.start()
        time.sleep(chance.uniform(0.1, 0.6))
        first, second = chance.sample([agent.process, broker.process], 2)
        first.kill()
        time.sleep(chance.uniform(0, 0.05))
        second.kill()
        broker.start()
    loaded.stop_writing()
    agent.start()
    loaded.judge(agent)
