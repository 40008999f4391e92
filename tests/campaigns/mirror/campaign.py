"""Is a copy in another cluster what its source is, whatever is killed, frozen, cut or filled?

A run leaves

    clusters/…         the configuration, output and data of brokers, ZooKeepers and mirrors
    logs/…             the partitions' directories of both clusters as they were at the end
    before/…           those of the source before a gap was made
    gaps.json          the gaps; said.txt is what mirrors have said
    history.jsonl.gz   what happened
"""

import json
import os
import shutil
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.clusters.two_clusters import PREFIX, TwoClusters
from harness.processes.waiting import wait_until
from tests.campaigns.bugs import bugs_in, bugs_of
from tests.campaigns.cluster.campaign import HISTORY, LAG_SECONDS, PENSTOCK, faults_of, stopped
from tests.campaigns.cluster.clients import PATIENCE, HeadstrongWriter, LibrdkafkaWriter
from tests.campaigns.cluster.events import Acknowledged, Event, Sent
from tests.campaigns.cluster.judging import ALL
from tests.campaigns.cluster.script import Script
from tests.campaigns.command import Campaign
from tests.campaigns.disks import SmallDisk
from tests.campaigns.flaws import BROKEN
from tests.campaigns.history import Done, History, Trouble
from tests.campaigns.logs import read_batches, read_replicas
from tests.campaigns.mirror.broken import FLAWS
from tests.campaigns.mirror.broken import __name__ as broken_program
from tests.campaigns.mirror.gaps import Gaps
from tests.campaigns.mirror.judging import Case, Copy, Gap, Place, judge, names_both_ends
from tests.campaigns.mirror.nemesis import Nemesis
from tests.campaigns.mirror.script import (
    ACTIONS,
    BROKERS,
    GAPS,
    KINDS,
    MIRRORS,
    PARTITIONS,
    SCENES,
    SIDES,
    script_of,
)
from tests.campaigns.mirror.watermarks import watermarks
from tests.campaigns.mirror.writers import OurWriter
from tests.campaigns.outcomes import Objection, Outcome, Say, outcome_of
from tests.system.crash import Worker, finish_all

SAID: Final = "said.txt"
GAPS_MADE: Final = "gaps.json"
CLUSTERS, LOGS, BEFORE = "clusters", "logs", "before"
TOPIC: Final = "history"
STANDS_STILL: Final = 60.0
_COMPARED: Final = 4_000_000  # bytes a second
_DISK: Final = "256m"
# Small segments, so that faults also meet the moment of a new one.
_CONFIGS: Final = {"segment.bytes": str(256 * 1024), "retention.ms": "-1"}


class MirrorCampaign(Campaign):
    name = "mirror"
    about = __doc__
    scripts = Script
    actions = ACTIONS
    flaws = FLAWS

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--brokers", type=int, default=BROKERS, help="of each cluster")
        add("--scenes", type=int, default=SCENES, help="of a script")
        add("--only", action="append", choices=KINDS, default=[], help="what may go wrong")
        add("--long", action="store_true", help="links are cut for minutes")

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(
            seed,
            kinds=options.only,
            scenes=options.scenes,
            brokers=options.brokers,
            long=options.long,
        )

    def run(self, script: Script, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        history = History()

        def play() -> Sequence[Objection]:
            for each in (CLUSTERS, LOGS, BEFORE):
                (directory / each).mkdir()
            try:
                with ExitStack() as stack:
                    _Run(script, directory, history, say, broken, stack).play()
            finally:
                history.save(directory / HISTORY)
            return self.judge_again(directory)

        def counts() -> dict[str, int]:
            copies = (directory / LOGS / "target").glob(f"broker-1/data/{PREFIX}*")
            return {
                "records sent": len(history.of(Sent)),
                "acknowledged": len(history.of(Acknowledged)),
                "batches copied": sum(len(read_batches(each)) for each in copies),
                "gaps made": len(_gaps(directory)),
            }

        return outcome_of(script, directory, play, counts)

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        gaps = {(each.topic, each.partition): each for each in _gaps(directory)}
        copies: dict[Place, Copy] = {}
        for topic, partition in _places(directory):
            source = read_replicas(directory / LOGS / "source", topic, partition)
            copies[topic, partition] = Copy(
                max((each.batches for each in source), key=len, default=()),
                read_replicas(directory / LOGS / "target", PREFIX + topic, partition),
                read_batches(directory / BEFORE / f"{topic}-{partition}"),
                gaps.get((topic, partition)),
            )
        troubles = [each.what for each in History.load(directory / HISTORY, Event).of(Trouble)]
        return judge(Case(copies, (directory / SAID).read_text(), troubles))


CAMPAIGNS: Final = {"mirror": MirrorCampaign()}


def _gaps(directory: Path) -> list[Gap]:
    file = directory / GAPS_MADE
    return msgspec.json.decode(file.read_bytes(), type=list[Gap]) if file.exists() else []


def _places(directory: Path) -> list[Place]:
    """Of either side: a copy of nothing is looked at, too."""
    found = set()
    for side in SIDES:
        for each in (directory / LOGS / side).glob("broker-*/data/*"):
            topic, _, partition = each.name.rpartition("-")
            found.add((topic.removeprefix(PREFIX), int(partition)))
    return sorted(found)


class _Run:
    """Two clusters, writers at the source, mirrors, what is done to them, and rest."""

    def __init__(  # noqa: PLR0917  each is another part
        self,
        script: Script,
        directory: Path,
        history: History,
        say: Say,
        broken: str,
        stack: ExitStack,
    ) -> None:
        self._script, self._directory, self._history = script, directory, history
        within = directory / CLUSTERS
        names = [f"{side}-{each}" for side in SIDES for each in range(1, script.brokers + 1)]
        names += [f"mirror-{each}" for each in range(1, MIRRORS + 1)]
        faults = faults_of(directory, within, names)
        disks = dict(self._small_disks(stack))
        self._clusters = TwoClusters(
            within,
            brokers=(script.brokers, script.brokers),
            mirrors=MIRRORS,
            settings={
                "zookeeper_session_seconds": script.session,
                **({"replication": {"lag_seconds": LAG_SECONDS}} if script.brokers > 1 else {}),
            },
            environments={each: {**faults[each].environment, BROKEN: broken} for each in names},
            data_dirs={broker: disk.directory / "data" for broker, disk in disks.items()},
            mirror_settings={"compare": {"rate": _COMPARED, "interval": 1.0}},
            mirror_program=broken_program if broken else PENSTOCK,
        )
        stack.enter_context(self._clusters)
        verbs = {action.verb for action in script.actions}
        self._topics = {TOPIC: PARTITIONS, **{each: 1 for each in GAPS if each in verbs}}
        self._gaps = Gaps(self._clusters, directory / BEFORE, script.factor)
        self._nemesis = Nemesis(
            self._clusters,
            faults,
            disks,
            self._gaps,
            {"source": TOPIC, "target": PREFIX + TOPIC},
            history,
            script.seed,
            say,
        )

    def _small_disks(self, stack: ExitStack) -> Iterator[tuple[int, SmallDisk]]:
        """For the target, where disks are to be filled and can be made."""
        wanted = any(each.verb == "fill-disk" for each in self._script.actions)
        if wanted and os.geteuid() == 0:
            for broker in range(1, self._script.brokers + 1):
                disk = SmallDisk(self._directory / f"small-disk-{broker}", _DISK)
                disk.mount()
                stack.callback(disk.unmount)
                yield broker, disk

    def play(self) -> None:
        source, script = self._clusters.source, self._script
        configs = {**_CONFIGS, "min.insync.replicas": str(script.in_sync)}
        source.create_topic(TOPIC, replicas=script.replicas(PARTITIONS), configs=configs)
        self._settle(source, "", [TOPIC])
        for kind in self._topics.keys() - {TOPIC}:
            self._gaps.prepare(kind)
        writers = self._writers()
        for writer in writers:
            writer.start()
        try:
            self._nemesis.play(script.actions)
            self._nemesis.heal()
            self._settle(source, "", self._topics)
            finish_all(writers)
            self._come_to_rest()
        finally:
            for writer in writers:
                writer.ask_to_stop()
            (self._directory / SAID).write_text(self._said())
            (self._directory / GAPS_MADE).write_bytes(msgspec.json.encode(self._gaps.made))
        self._nemesis.stop_all()
        for side, cluster in zip(SIDES, self._clusters.both, strict=True):
            for what in (*stopped(cluster), *bugs_of(cluster)):
                self._trouble(f"{side}: {what}")
            self._keep_logs(side, cluster)
        for number, mirror in self._clusters.mirrors.items():
            for what in bugs_in(f"mirror {number}", mirror.log()):
                self._trouble(what)

    def _trouble(self, what: str, rule: str = "trouble") -> None:
        self._history.note(Trouble(f"{rule}: {what}"))

    def _writers(self) -> list[Worker]:
        """Different ones to each partition; to the last nobody."""
        source, history = self._clusters.source, self._history
        addresses = {each: source.to_clients[each].address for each in source.ids}

        def led(partition: int, codec: str) -> Worker:
            return LibrdkafkaWriter(
                f"{codec}/{partition}",
                *(history, source.bootstrap, TOPIC, partition),
                acks=ALL,
                idempotent=True,
                codec=codec,
            )

        return [
            led(0, "lz4"),
            led(1, "none"),
            HeadstrongWriter("by-hand/1", history, addresses, TOPIC, 1, ALL),
            OurWriter("ours/2", history, source.bootstrap, TOPIC, 2),
            led(2, "zstd"),
        ]

    # Rest

    def _settle(self, cluster: BrokerCluster, prefix: str, topics: Sequence[str] | Any) -> None:
        for topic in topics:
            try:
                cluster.wait_in_sync(prefix + topic, self._topics[topic], within=PATIENCE)
            except TimeoutError as late:
                self._trouble(str(late), "stuck")

    def _come_to_rest(self) -> None:
        """Copies end where their sources do, but for gaps; and those have been named."""
        gapped = {each.topic: each for each in self._gaps.made}
        whole = {name: count for name, count in self._topics.items() if name not in gapped}
        if behind := self._wait_while_they_grow(whole):
            self._trouble(f"for {STANDS_STILL:g} s: {'; '.join(behind)}", "stuck")
        with suppress(TimeoutError):  # the judge will say it
            wait_until(
                lambda: (
                    all(names_both_ends(each, self._said()) for each in gapped.values())
                    and not self._differing(whole)
                ),
                what="gaps are named, and all else is the same",
                every=0.5,
            )
        for each in self._differing(whole):
            self._trouble(f"it is said although it is not so: {each}")
        self._settle(self._clusters.target, PREFIX, self._topics)
        self._history.note(Done("all has come to rest"))

    def _wait_while_they_grow(self, topics: dict[str, int]) -> list[str]:
        """What is behind, where for long nothing has changed."""
        behind: list[str] = []
        since = time.monotonic()
        while now := self._behind(topics):
            if now != behind:
                behind, since = now, time.monotonic()
            if time.monotonic() - since > STANDS_STILL:
                return behind
            time.sleep(0.5)
        return []

    def _behind(self, topics: dict[str, int]) -> list[str]:
        found = []
        for topic, count in topics.items():
            partitions = list(range(count))
            source = watermarks(self._clusters.source, topic, partitions)
            target = watermarks(self._clusters.target, PREFIX + topic, partitions)
            found += [
                f"{topic}-{each} ends at {source[each][1]}, its copy at {target[each][1]}"
                for each in partitions
                if source[each][1] != target[each][1] or source[each][1] < 0
            ]
        return found

    def _differing(self, topics: dict[str, int]) -> list[str]:
        """What mirrors say of copies that are to be the same as their sources."""
        pages = [each.standing() for each in self._clusters.mirrors.values()]
        return [
            line
            for page in pages
            for line in (page or {}).get("remarks", ())
            for topic in topics
            if line.startswith(f"{PREFIX}{topic}-") and " differs from its source " in line
        ]

    def _said(self) -> str:
        """By mirrors: their output, and their pages."""
        mirrors = self._clusters.mirrors.values()
        return "\n".join(
            line for each in mirrors for line in (each.log(), *_lines_of(each.standing()))
        )

    def _keep_logs(self, side: str, cluster: BrokerCluster) -> None:
        prefix = PREFIX if side == "target" else ""
        for broker, process in cluster.brokers.items():
            for topic, count in self._topics.items():
                for partition in range(count):
                    found = process.partition_dir(prefix + topic, partition)
                    kept = self._directory / LOGS / side / f"broker-{broker}" / "data" / found.name
                    if found.is_dir():
                        shutil.copytree(found, kept)


def _lines_of(page: Any) -> Iterator[str]:
    """Each text of a page is a line, and each of its innermost objects."""
    if isinstance(page, str):
        yield page
    elif isinstance(page, list):
        for each in page:
            yield from _lines_of(each)
    elif isinstance(page, dict):
        inner = [each for each in page.values() if isinstance(each, dict | list)]
        for each in inner:
            yield from _lines_of(each)
        if not inner:
            yield json.dumps(page)
