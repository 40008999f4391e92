"""The agent is killed at random instants under load: no line is lost, and none is there twice.

Not after duplicates were removed, but in the log itself; on Penstock's broker and on Apache Kafka.
The instants are drawn from a seed, which a failure prints; PENSTOCK_AGENT_SEED repeats it,
PENSTOCK_AGENT_KILLS changes the number of kills.
"""

import gzip
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.agent import AgentProcess
from harness.penstock.registry import RegistryProcess
from tests.system.agent.incarnations import check_numbered, check_one_partition
from tests.system.agent.shipped import Topic
from tests.system.agent.site import JSON, Site, stop
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
        plain, old = site.new_topic(partitions=3), site.new_typed_topic()
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
        return self.site.agent(
            self.site.reads(self.plain, "plain.log*"),
            self.site.reads(self.old, "old.log*", **JSON),
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

    def judge(self, agent: AgentProcess) -> None:
        """Once the agent that runs has shipped everything."""
        for topic, writer in zip((self.plain, self.old), self.writers, strict=True):
            topic.wait_for_count(writer.count)
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


@pytest.fixture
def kafka_site(
    running_kafka: ApacheKafka, running_registry: RegistryProcess, tmp_path: Path
) -> Iterator[Site]:
    """On Apache Kafka. The registry's own topic is on the Penstock broker all the same."""
    with Site(running_kafka, running_registry.url, tmp_path) as site:
        yield site


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=2))
@pytest.mark.parametrize(
    "site_name",
    ["site", pytest.param("kafka_site", marks=pytest.mark.long)],
    ids=["penstock", "apache-kafka"],
)
def test_killed_under_load(
    request: pytest.FixtureRequest, site_name: str, chance: random.Random, count: int
) -> None:
    load = Load.on(request.getfixturevalue(site_name))
    kill_under_load(load, load.agent(), chance, count)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=2))
def test_killed_while_archives_are_read(
    site: Site, topic: Topic, chance: random.Random, count: int
) -> None:
    """Of several members, in an archive beside the file that continues it."""
    archived, log = site.file("b.log"), site.file()
    members = []
    for _ in range(4):
        size = len(archived.life.data)
        archived.write(5_000, padding=20)
        members.append(gzip.compress(archived.life.data[size:]))
    archived.path.unlink()
    (site.logs / "b.log.1.gz").write_bytes(b"".join(members))
    log.write(10)
    agent = site.agent(site.reads(topic, "*.log*", archives="read", rate_limit=20_000))
    for _ in range(count):
        agent.start()
        time.sleep(chance.uniform(0.0, 0.6))
        agent.kill()
    agent.start()
    topic.wait_for_count(archived.lines + log.lines)
    stop(agent)
    accounts = site.check(topic, [archived.life, log.life])
    assert accounts[archived.life].end == len(archived.life.data)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", kills(usually=2))
def test_power_lost(site: Site, chance: random.Random, faults: Faults, count: int) -> None:
    """Of the agent's own files only what was synced is surely there. It syncs if it is told to."""
    load = Load.on(site)
    agent = load.agent(settings={"journal_sync": True}, environment=faults.environment)

    def lose_power() -> None:
        if agent.data_dir.exists():
            faults.lose_power(agent.data_dir, chance)

    kill_under_load(load, agent, chance, count, after_kill=lose_power)


@pytest.mark.slow
def test_power_lost_and_batches_not_synced(site: Site, topic: Topic, faults: Faults) -> None:
    """Lines sent since the ledger's last entry are sent again. The ledger has each batch once."""
    log = site.file()
    agent = site.agent(site.reads(topic), environment=faults.environment)
    for _ in range(2):
        agent.start()
        sent = log.lines
        while log.lines < sent + 200:
            log.write(4)
            time.sleep(0.01)
        topic.wait_for_message(f"a {log.lines - 1} ")
        agent.kill()
        synced, _ = faults.synced()
        for path in agent.data_dir.iterdir():
            os.truncate(path, min(synced.get(path.stat().st_ino, 0), path.stat().st_size))
    agent.start()
    log.write(10)
    topic.wait_for_message(f"a {log.lines - 1} ")
    stop(agent)
    topic.read_to_end()
    assert {int(each.split()[1]) for each in topic.messages} == set(range(log.lines))
    claims = Counter(
        offset
        for passage in site.ledger(may_lack=True).statements("passages", topic.name)
        for stretch in passage["offsets"]
        for offset in range(stretch["first"], stretch["first"] + stretch["count"])
    )
    assert log.lines <= len(claims) <= len(topic.messages)
    assert set(claims.values()) == {1}
    assert not agent.said("has lost its end")


@pytest.mark.slow
@pytest.mark.fuzz
def test_agent_and_broker_killed_together(site: Site, chance: random.Random) -> None:
    """What was under way may be in the log or not when both come back."""
    load, broker = Load.on(site), site.server
    agent = load.agent()
    with load:
        for _ in range(20 if LONG else 1):
            agent.start()
            time.sleep(chance.uniform(0.1, 0.6))
            first, second = chance.sample([agent.process, broker.process], 2)
            first.kill()
            time.sleep(chance.uniform(0, 0.05))
            second.kill()
            broker.start()
        load.stop_writing()
        agent.start()
        load.judge(agent)
