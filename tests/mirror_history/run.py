"""One run: two clusters, writers at the source, mirrors, what is done to them, rest, the judgement.

DIR/clusters/…         the configuration, output and data of brokers, ZooKeepers and mirrors
DIR/logs/…             the partitions' directories of both clusters as they were at the end
DIR/before/…           those of the source before a gap was made
DIR/gaps.json          the gaps; said.txt is what mirrors have said
DIR/run.script         what was done
DIR/history.jsonl.gz   what happened
DIR/objections         what is wrong, and is not there if nothing is
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException

from cluster.errors import ClusterError, EmbeddedError
from harness.broker_cluster import BrokerCluster
from harness.server_process import ServerFailed
from harness.two_clusters import PREFIX, TwoClusters
from harness.waiting import wait_until
from tests.cluster_history.bugs import bugs_in, bugs_of
from tests.cluster_history.history import Acknowledged, Done, History, Sent, Trouble
from tests.cluster_history.judging import ALL, Objection
from tests.cluster_history.script import Script
from tests.cluster_history.writers import PATIENCE, HeadstrongWriter, LibrdkafkaWriter
from tests.mirror_history.choosing import GAPS, MIRRORS, PARTITIONS
from tests.mirror_history.gaps import Gaps
from tests.mirror_history.judging import Case, Copy, Gap, Place, judge, names_both_ends
from tests.mirror_history.logs import read_batches, read_replicas
from tests.mirror_history.nemesis import Nemesis, OfCluster
from tests.mirror_history.script import SIDES
from tests.mirror_history.watermarks import watermarks
from tests.mirror_history.writers import OurWriter
from tests.seeded_runs import Outcome
from tests.system.crash import Worker, finish_all
from tests.system.faults import Faults, compile_faults
from tests.system.small_disk import mounted_disk

HISTORY: Final = "history.jsonl.gz"
SCRIPT: Final = "run.script"
SAID: Final = "said.txt"
GAPS_MADE: Final = "gaps.json"
CLUSTERS, LOGS, BEFORE = "clusters", "logs", "before"
PENSTOCK: Final = "penstock"
TOPIC: Final = "history"
LAG_SECONDS: Final = 6.0
STANDS_STILL: Final = 60.0
SPEAKS: Final = 30.0
_COMPARED: Final = 4_000_000  # bytes a second
_DISK_MEBIBYTES: Final = 256
# Small segments, so that faults also meet the moment of a new one.
_CONFIGS: Final = {"segment.bytes": str(256 * 1024), "retention.ms": "-1"}


def run(
    script: Script,
    directory: Path,
    say: Callable[[str], None] = lambda _: None,
    *,
    program: str = PENSTOCK,
) -> Outcome:
    """Leaves all there is to see in `directory`, which must be new. `program` is the module that is
    run for each mirror."""
    for each in (CLUSTERS, LOGS, BEFORE):
        (directory / each).mkdir(parents=True)
    (directory / SCRIPT).write_text(str(script))
    began = time.monotonic()
    history = History()
    error = ""
    objections: tuple[Objection, ...] = ()
    try:
        with contextlib.ExitStack() as stack:
            _Run(script, directory, history, say, program, stack).play()
        history.save(directory / HISTORY)
        objections = tuple(judge_again(directory))
    except (
        *(ServerFailed, EmbeddedError, ClusterError, TimeoutError, OSError, KafkaException),
    ) as failure:
        history.save(directory / HISTORY)
        error = f"{type(failure).__name__}: {failure}"
    said = [str(each) for each in objections] + ([error] if error else [])
    if said:
        (directory / "objections").write_text("\n".join(said) + "\n")
    counts = _counts(history, directory)
    return Outcome(script, objections, time.monotonic() - began, counts, error)


def _counts(history: History, directory: Path) -> dict[str, int]:
    batches = [
        len(read_batches(each))
        for each in (directory / LOGS / "target").glob(f"broker-1/data/{PREFIX}*")
    ]
    return {
        "records sent": len(history.of(Sent)),
        "acknowledged": len(history.of(Acknowledged)),
        "batches copied": sum(batches),
        "gaps made": len(_gaps(directory)),
    }


def _gaps(directory: Path) -> list[Gap]:
    file = directory / GAPS_MADE
    return msgspec.json.decode(file.read_bytes(), type=list[Gap]) if file.exists() else []


def judge_again(directory: Path) -> list[Objection]:
    """What is wrong with a run, by what it has left."""
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
    troubles = [each.what for each in History.load(directory / HISTORY).of(Trouble)]
    return judge(Case(copies, (directory / SAID).read_text(), troubles))


def _places(directory: Path) -> list[Place]:
    """Of either side: a copy of nothing is looked at, too."""
    found = set()
    for side in SIDES:
        for each in (directory / LOGS / side).glob("broker-*/data/*"):
            topic, _, partition = each.name.rpartition("-")
            found.add((topic.removeprefix(PREFIX), int(partition)))
    return sorted(found)


class _Run:
    def __init__(  # noqa: PLR0917  each is another part
        self,
        script: Script,
        directory: Path,
        history: History,
        say: Callable[[str], None],
        program: str,
        stack: contextlib.ExitStack,
    ) -> None:
        self._script, self._directory, self._history, self._say = script, directory, history, say
        within = directory / CLUSTERS
        library = compile_faults(directory)
        brokers = range(1, script.brokers + 1)
        names = [f"{side}-{each}" for side in SIDES for each in brokers]
        names += [f"mirror-{each}" for each in range(1, MIRRORS + 1)]
        self._faults = {each: _faults(library, within / f"disk-{each}") for each in names}
        self._disks = dict(self._small_disks(stack, brokers))
        self._clusters = TwoClusters(
            within,
            brokers=(script.brokers, script.brokers),
            mirrors=MIRRORS,
            settings={
                "zookeeper_session_seconds": script.session,
                **({"replication": {"lag_seconds": LAG_SECONDS}} if script.brokers > 1 else {}),
            },
            environments={name: faults.environment for name, faults in self._faults.items()},
            data_dirs={broker: disk / "data" for broker, disk in self._disks.items()},
            mirror_settings={"compare": {"rate": _COMPARED, "interval": 1.0}},
            mirror_program=program,
        )
        stack.enter_context(self._clusters)
        self._kinds = [
            each for each in GAPS if any(action.verb == each for action in script.actions)
        ]
        self._topics = {TOPIC: PARTITIONS, **dict.fromkeys(self._kinds, 1)}
        self._gaps = Gaps(self._clusters, directory / BEFORE, script.factor)

    def _small_disks(
        self, stack: contextlib.ExitStack, brokers: range
    ) -> Iterator[tuple[int, Path]]:
        """For the target, where disks are to be filled and can be made."""
        wanted = any(each.verb == "fill-disk" for each in self._script.actions)
        if wanted and os.geteuid() == 0:
            for broker in brokers:
                home = self._directory / f"small-disk-{broker}"
                home.mkdir()
                yield broker, stack.enter_context(mounted_disk(home, _DISK_MEBIBYTES))

    def play(self) -> None:
        clusters = self._clusters
        for cluster in clusters.both:
            assert set(cluster.ids) == set(range(1, self._script.brokers + 1))
        self._create_topics()
        nemesis = self._nemesis()
        writers = self._writers()
        for writer in writers:
            writer.start()
        try:
            nemesis.play()
            nemesis.heal()
            self._settle(clusters.source, "")
            finish_all(writers)
            self._come_to_rest()
        finally:
            for writer in writers:
                writer.ask_to_stop()
            self._keep_what_was_said()
        nemesis.stop_all()
        for name, cluster in zip(SIDES, clusters.both, strict=True):
            self._stop(name, cluster)
            self._keep_logs(name, cluster)
        self._look_for_bugs()

    def _create_topics(self) -> None:
        source, script = self._clusters.source, self._script
        ids = source.ids
        replicas = [
            [ids[(each + place) % len(ids)] for place in range(script.factor)]
            for each in range(PARTITIONS)
        ]
        configs = {**_CONFIGS, "min.insync.replicas": str(script.in_sync)}
        source.create_topic(TOPIC, replicas=replicas, configs=configs)
        self._settle(source, "", topics=[TOPIC])
        for kind in self._kinds:
            self._gaps.prepare(kind)

    def _nemesis(self) -> Nemesis:
        topics = {"source": TOPIC, "target": PREFIX + TOPIC}
        of_clusters = {
            side: OfCluster(
                cluster,
                {each: self._faults[f"{side}-{each}"] for each in cluster.ids},
                self._history,
                None,
                self._script,
                topics[side],
                PARTITIONS,
            )
            for side, cluster in zip(SIDES, self._clusters.both, strict=True)
        }
        return Nemesis(
            self._clusters,
            of_clusters,
            self._faults,
            self._disks,
            self._gaps,
            self._history,
            self._script,
            topics,
            self._say,
        )

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

    def _settle(
        self, cluster: BrokerCluster, prefix: str, *, topics: Sequence[str] | None = None
    ) -> None:
        for topic in topics if topics is not None else self._topics:
            try:
                cluster.wait_in_sync(prefix + topic, self._topics[topic], within=PATIENCE)
            except TimeoutError as late:
                self._history.note(Trouble(f"stuck: {late}"))

    def _come_to_rest(self) -> None:
        """Copies end where their sources do, but for gaps; and those have been named."""
        gapped = {each.topic: each for each in self._gaps.made}
        whole = {name: count for name, count in self._topics.items() if name not in gapped}
        behind = self._wait_while_they_grow(whole)
        if behind:
            self._history.note(Trouble(f"stuck: for {STANDS_STILL:g} s: {'; '.join(behind)}"))
        with contextlib.suppress(TimeoutError):  # the judge will say it
            wait_until(
                lambda: all(names_both_ends(each, self._said()) for each in gapped.values()),
                within=SPEAKS,
                what="gaps are named",
                every=0.5,
            )
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda: not self._differing(whole), within=SPEAKS, what="all is the same", every=0.5
            )
        for each in self._differing(whole):
            self._history.note(Trouble(f"trouble: it is said although it is not so: {each}"))
        self._settle(self._clusters.target, PREFIX)
        self._history.note(Done("all has come to rest"))

    def _wait_while_they_grow(self, topics: dict[str, int]) -> list[str]:
        """What is behind, where for long nothing has changed."""
        behind: list[str] = []
        until = time.monotonic() + STANDS_STILL
        while time.monotonic() < until:
            now = self._behind(topics)
            if not now:
                return []
            if now != behind:
                behind, until = now, time.monotonic() + STANDS_STILL
            time.sleep(0.5)
        return behind

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
        said = []
        for mirror in self._clusters.mirrors.values():
            said.append(mirror.log())
            said += _lines_of(mirror.standing())
        return "\n".join(said)

    def _keep_what_was_said(self) -> None:
        (self._directory / SAID).write_text(self._said())
        (self._directory / GAPS_MADE).write_bytes(msgspec.json.encode(self._gaps.made))

    def _stop(self, side: str, cluster: BrokerCluster) -> None:
        for broker, code in cluster.stop_side_by_side().items():
            if code:
                what = f"broker {broker} of the {side} stopped with {code} at the end"
                self._history.note(Trouble(f"trouble: {what}"))

    def _keep_logs(self, side: str, cluster: BrokerCluster) -> None:
        prefix = PREFIX if side == "target" else ""
        for broker, process in cluster.brokers.items():
            for topic, count in self._topics.items():
                for partition in range(count):
                    found = process.partition_dir(prefix + topic, partition)
                    kept = self._directory / LOGS / side / f"broker-{broker}" / "data" / found.name
                    if found.is_dir():
                        shutil.copytree(found, kept)

    def _look_for_bugs(self) -> None:
        found = [
            f"{side}: {what}"
            for side, cluster in zip(SIDES, self._clusters.both, strict=True)
            for what in bugs_of(cluster)
        ]
        for number, mirror in self._clusters.mirrors.items():
            found += bugs_in(f"mirror {number}", mirror.log())
        for what in found:
            self._history.note(Trouble(f"trouble: {what}"))


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


def _faults(library: Path, directory: Path) -> Faults:
    directory.mkdir()
    return Faults(library, directory)
