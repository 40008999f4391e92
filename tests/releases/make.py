"""`python -m tests.releases.make 0.1`: keeps what this release's programs write, for later ones.

Run once, when a release is made, on that release; what it writes is committed and never changed.
It needs what the tests need (Java, Spark), takes some minutes, and asks of every step whether it
came out as meant: which instant a kill hits is chance, so it may have to be run again.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from confluent_kafka import Producer

from audit.api.answers import HourGate, ReportAnswer
from client.admin import topics as admin
from client.connection.addresses import Address
from harness.penstock.agent import AgentProcess
from harness.processes.server_process import ServerProcess
from harness.processes.waiting import wait_until
from ledger.counting.journal import counted_places
from schemas.event_schemas import scaffold
from tests.client.cutting_proxy import CuttingProxy
from tests.releases.kept import KEPT, Expected, Log, Verdict, pack, pack_broker
from tests.releases.reading import ends, messages, read
from tests.releases.site import GONE, SHOP_LOGS, TOPICS, VIEWS, Site, shop_log, view
from tests.system.clients.librdkafka import LibrdkafkaAdmin

HOUR: Final = 3_600_000
PRODUCE: Final = 0
KEPT_FOREVER: Final = {"retention.ms": "-1", "segment.bytes": "16384"}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS: Final = {
    **dict.fromkeys((*TOPICS, "stamped", "cut", "state", "_schemas"), 1),
    "plain": 3,
    "_audit": 2,
}
COMPACTED: Final = {"state", "_schemas"}
COUNTED: Final = "cut"
SPARK: Final = {
    "spark.ui.enabled": False,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(release: str) -> None:
    with tempfile.TemporaryDirectory(prefix="release-") as directory:
        site = Site(Path(directory))
        making = Making(site, release)
        making.run()
        archives = pack(site.directory, making.expected()), pack_broker(release)
    for archive in archives:
        print(f"{archive.relative_to(KEPT.parent)}: {archive.stat().st_size:,} bytes")


class Making:
    """The steps, in their order."""

    def __init__(self, site: Site, release: str) -> None:
        self._site = site
        self._release = release
        self._began = time.time_ns() // 1_000_000 // HOUR * HOUR - 4 * HOUR
        self._chance = random.Random(release)
        self._schemas: dict[str, dict[int, int]] = {}
        self._verdicts: tuple[Verdict, ...] = ()
        self._logs: list[Log] = []
        self._counted: dict[str, int] = {}

    def run(self) -> None:
        site = self._site
        with ExitStack() as running:
            running.enter_context(site.broker)
            self._create_topics()
            running.enter_context(site.registry)
            self._register()
            self._write_topics()
            running.enter_context(site.audit)
            self._say("agents and loads")
            with self._agents() as (one, two):
                self._ship(one, two, part=0)
                self._load()
                site.broker.restart()  # the leader's next epoch
                self._ship(one, two, part=1)
                self._load()
                self._wait_for_hour()
                self._load(exit_codes=(0, 3))  # calls the hour complete
            self._lose_a_file()
            self._count()
            self._verdicts = self._judged()
            assert site.audit.terminate() == 0
            self._say("agents that are killed")
            self._leave_unanswered()
            self._leave_unsent()
            self._schemas = self._registered()
            assert site.registry.terminate() == 0
            self._logs = [
                read(site.broker.bootstrap, topic, partition, compacted=topic in COMPACTED)
                for topic, count in PARTITIONS.items()
                if topic != "_audit"
                for partition in range(count)
            ]
            assert site.broker.terminate() == 0

    def expected(self) -> Expected:
        return Expected(
            release=self._release,
            began=self._began,
            logs=tuple(self._logs),
            schemas=self._schemas,
            verdicts=self._verdicts,
            landed_views=((0, 600), (1000, 1200)),
            landed_shop_logs=((0, 200),),
            shipped_views=(4000, 4010),
            unsent_views=(4010, 4050),
            unsent_shop_logs=(200, 230),
            unanswered_views=(5000, 5050),
            counted=self._counted,
            markers=tuple(
                sorted(
                    str(path.relative_to(self._site.warehouse))
                    for path in self._site.warehouse.rglob("_SUCCESS")
                )
            ),
        )

    @staticmethod
    def _say(step: str) -> None:
        print(step, flush=True)

    # Logs

    def _create_topics(self) -> None:
        with self._site.brokers() as brokers:
            for topic, partitions in PARTITIONS.items():
                configs = dict(KEPT_FOREVER)
                if topic in COMPACTED:
                    configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
                if topic == "stamped":
                    configs |= {"message.timestamp.type": "LogAppendTime"}
                admin.create_topic(brokers, topic, partitions=partitions, configs=configs)

    def _write_topics(self) -> None:
        for codec in CODECS:
            for partition in range(PARTITIONS["plain"]):
                self._produce("plain", codec, range(120), partition=partition)
            self._produce("stamped", codec, range(40))
            self._produce("cut", codec, range(40))
            self._produce("state", codec, range(200), keys=30)
        wait_until(lambda: self._is_compacted("state"), within=60, what="state compacted")
        LibrdkafkaAdmin().delete_records(self._site.broker.bootstrap, "cut", 0, 50)

    def _produce(
        self, topic: str, codec: str, numbers: range, *, partition: int = 0, keys: int = 0
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._site.broker.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 5,
                "batch.num.messages": 20,
            }
        )
        for number in numbers:
            key = b"key-%d" % (number % keys) if keys else None
            deleted = keys and number % 50 == 49
            value = None if deleted else self._chance.randbytes(20).hex().encode()
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                timestamp=self._began + number * 1000,
                headers={"number": b"%d" % number},
            )
        assert producer.flush(30) == 0

    def _is_compacted(self, topic: str) -> bool:
        bootstrap = self._site.broker.bootstrap
        count = sum(1 for _ in messages(bootstrap, topic, 0))
        return count < ends(bootstrap, topic, 0)[1] // 2

    # Schemas

    def _register(self) -> None:
        registry = self._site.registry
        fields: dict[str, Any] = {"n": "long", "url": "string"}
        for topic in (VIEWS, GONE):
            schema = msgspec.json.decode(scaffold("shop.View", fields))
            assert registry.register(f"{topic}-value", schema).status == 200
        later = scaffold("shop.View", {**fields, "user": ["null", "string"]})
        assert registry.register(f"{VIEWS}-value", msgspec.json.decode(later)).status == 200
        deleted = msgspec.json.decode(scaffold("shop.Former", {"n": "long"}))
        assert registry.register("former-value", deleted).status == 200
        assert registry.ask("DELETE", "/subjects/former-value").status == 200
        for level in ("FULL", "NONE", "BACKWARD_TRANSITIVE") * 60:
            body = {"compatibility": level}
            assert registry.ask("PUT", f"/config/{VIEWS}-value", body).status == 200
        wait_until(lambda: self._is_compacted("_schemas"), within=60, what="_schemas compacted")

    def _registered(self) -> dict[str, dict[int, int]]:
        ask = self._site.registry.ask
        subjects = ask("GET", "/subjects").body
        return self._site.schemas(
            {subject: ask("GET", f"/subjects/{subject}/versions").body for subject in subjects}
        )

    # Lines and rows

    @contextmanager
    def _agents(self) -> Iterator[tuple[AgentProcess, AgentProcess]]:
        one, two = self._site.agent("web-1"), self._site.agent("web-2")
        with one, two:
            yield one, two

    def _write(self, host: str, topic: str, numbers: range) -> None:
        line = shop_log if topic == SHOP_LOGS else lambda number: view(self._began, number)
        with (self._site.logs(host) / f"{topic}.log").open("ab") as file:
            file.writelines(map(line, numbers))

    def _ship(self, one: AgentProcess, two: AgentProcess, *, part: int) -> None:
        self._write("web-1", VIEWS, range(300 * part, 300 * (part + 1)))
        self._write("web-2", VIEWS, range(1000 + 100 * part, 1000 + 100 * (part + 1)))
        self._write("web-1", SHOP_LOGS, range(100 * part, 100 * (part + 1)))
        if part == 0:
            self._write("web-1", GONE, range(100))
        self._wait_for_tier("broker", {VIEWS: 400 * (part + 1), GONE: 100})
        wait_until(lambda: _nothing_left(one) and _nothing_left(two), within=30, what="all shipped")

    def _load(self, *options: str, exit_codes: tuple[int, ...] = (0,)) -> None:
        settings = {
            **self._site.load_settings(),
            "topics": list(TOPICS),
            "audit": self._site.audit.url,
            "spark": {"master": "local[1]", "conf": SPARK},
        }
        config = self._site.directory / "loader.yaml"
        config.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "penstock", "load", "--config", str(config), *options]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert ended.returncode in exit_codes, ended.stderr

    def _lose_a_file(self) -> None:
        (landed,) = (self._site.warehouse / GONE).rglob("part-*.parquet")
        landed.unlink()
        self._load("--check-files", "all", exit_codes=(8,))

    # What the audit says

    def _report(self) -> ReportAnswer:
        asked = {"from_": self._began, "to": self._began + HOUR, "cluster": "test"}
        return self._site.audit.get("report", ReportAnswer, **asked)

    def _wait_for_tier(self, tier: str, wanted: Mapping[str, int]) -> None:
        def there() -> bool:
            found = {each.topic: each for each in self._report().topics}
            return all(
                topic in found
                and sum(each.events for each in found[topic].tiers if each.tier == tier) == events
                for topic, events in wanted.items()
            )

        wait_until(there, within=60, what=f"{wanted} at {tier}", every=0.2)

    def _wait_for_hour(self) -> None:
        def complete() -> bool:
            asked = {"cluster": "test", "topic": VIEWS, "hour": self._began}
            return self._site.audit.get("hour", HourGate, **asked).complete

        wait_until(complete, within=60, what="the hour complete", every=0.2)

    def _judged(self) -> tuple[Verdict, ...]:
        self._wait_for_tier("hdfs", {VIEWS: 800})
        wanted = {VIEWS: "complete", GONE: "missing"}

        def there() -> bool:
            found = {each.topic: each.state for each in self._report().topics}
            return all(found.get(topic) == state for topic, state in wanted.items())

        wait_until(there, within=60, what=f"{wanted}", every=0.2)
        judged = {VIEWS, GONE, "plain"}
        return tuple(Verdict.of(each) for each in self._report().topics if each.topic in judged)

    def _count(self) -> None:
        config = self._site.counter_config([COUNTED])
        command = [sys.executable, "-m", "penstock", "audit", "--config", str(config), "--count"]
        log = self._site.directory / "counter.log"
        end = ends(self._site.broker.bootstrap, COUNTED, 0)[1]
        with ServerProcess(command, output=log) as program:
            program.spawn()
            wait_until(lambda: self._places() == {COUNTED: end}, within=60, what="cut counted")
            assert program.terminate() == 0
        self._counted = self._places()

    def _places(self) -> dict[str, int]:
        found = list((self._site.directory / "counter" / "data").rglob("*.counter"))
        if not found:
            return {}
        places = counted_places(found[0])
        return {key.topic: place.next_offset for key, place in places.items()}

    # What was under way

    def _leave_unanswered(self) -> None:
        """The broker has it, and its answer is lost with the connection; then the agent is killed
        before it has asked again."""
        address = Address("127.0.0.1", self._site.broker.port)
        with CuttingProxy(address) as proxy:
            there = f"127.0.0.1:{proxy.address.port}"
            agent = self._site.agent("web-2", brokers=there, ledger_interval=3600.0)
            with agent:
                wait_until(lambda: _nothing_left(agent), within=30, what="web-2 settled")
                proxy.swallow_next(PRODUCE)
                before = self._end_of_views()
                self._write("web-2", VIEWS, range(5000, 5050))
                wait_until(proxy.swallowed, within=30, what="an answer lost", every=0.0005)
                agent.kill()
        end = self._end_of_views()
        assert end == before + 50, f"views end at {end}, not at {before + 50}: run it again"

    def _leave_unsent(self) -> None:
        """The broker stands still while it is sent, and never reads it."""
        broker = self._site.broker
        agent = self._site.agent("web-1", ledger_interval=3600.0)
        with agent:
            self._write("web-1", VIEWS, range(4000, 4010))  # so that it has numbers to send under
            wait_until(lambda: _has_acknowledged(agent), within=30, what="web-1 settled")
            before = self._end_of_views()
            os.kill(broker.process.pid, signal.SIGSTOP)
            self._write("web-1", VIEWS, range(4010, 4050))
            self._write("web-1", SHOP_LOGS, range(200, 230))
            wait_until(lambda: _has_sent(agent), within=30, what="all lines under way")
            agent.kill()
        broker.kill()
        broker.start()
        assert self._end_of_views() == before, "it was sent after all: run it again"

    def _end_of_views(self) -> int:
        return ends(self._site.broker.bootstrap, VIEWS, 0)[1]


def _nothing_left(agent: AgentProcess) -> bool:
    status = agent.status()
    return (
        status is not None
        and all(each["lag_bytes"] == 0 for each in status["files"])
        and status["journal"]["open_batches"] == 0
    )


def _has_acknowledged(agent: AgentProcess) -> bool:
    return _nothing_left(agent) and sum(each["events"] for each in agent.status()["topics"]) > 0


def _has_sent(agent: AgentProcess) -> bool:
    """All lines are read, and batches of both topics wait for their answers."""
    status = agent.status()
    under_way = {each["name"] for each in status["topics"] if each["in_flight_batches"]}
    return {VIEWS, SHOP_LOGS} <= under_way and all(
        each["position"] == each["size"] for each in status["files"]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
