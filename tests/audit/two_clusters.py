"""A file that is shipped to a topic of one cluster, copied to another and loaded there; and what is
true of its lines, which nobody here is asked for but those who lost them.

Line i is event i, at offset i of partition 0, ten to a minute and ten bytes long. What a fault
takes away is never spoken of by those who come after it.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from audit.reconciling.picture import TopicKey, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.store.reading import StoreReading
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.audited_ledger import FIRST, NOW
from tests.audit.store.said import HOUR, MINUTE, ROOT, TOPIC, TOPIC_ID, Json, body, entry, run

SOURCE, OFFLINE = "dc1", "offline"
COPY: Final = "dc1.clicks"
COPY_ID: Final = "BBBBBBBBBBBBBBBBBBBBBB"
ORIGIN_KEY: Final = TopicKey(SOURCE, TOPIC, TOPIC_ID)
COPY_KEY: Final = TopicKey(OFFLINE, COPY, COPY_ID)
OF: Final = {"cluster": SOURCE, "topic": TOPIC, "topic_id": TOPIC_ID}
LINES: Final = 200
LINE: Final = 10  # bytes
BATCH: Final = 10

Said = tuple[str, Json]  # by cluster


@dataclass(frozen=True)
class TwoClusters:
    """`unstored` never came to the brokers of the source, `uncopied` not to those of the copy,
    `unloaded` not into files. `mirrored`: lines that the mirror speaks of although they are not
    there."""

    unstored: Collection[int] = ()
    uncopied: Collection[int] = ()
    unloaded: Collection[int] = ()
    mirrored: Collection[int] = ()
    until: int = FIRST + HOUR  # of the agent's heartbeat
    began: int = FIRST
    mirror_speaks: bool = True
    loaded: bool = True

    def said(self) -> list[Said]:
        every = range(LINES)
        said = self.began + MINUTE
        stored = [each for each in every if each not in self.unstored]
        copied = [each for each in stored if each not in self.uncopied]
        landed = [each for each in copied if each not in self.unloaded]
        beat = {"until": self.until, "topics": [TOPIC], "program_version": "1", "lag_bytes": 0}
        batches = [range(first, first + BATCH) for first in range(0, LINES, BATCH)]
        shipped = entry(
            *("agent", "a", 0, said),
            passages=[self._passage(each, runs=_runs(each, named=True)) for each in batches],
            heartbeats=[beat],
        )
        found = [(SOURCE, shipped | {"cluster": SOURCE})]
        found += self._entry(SOURCE, "broker", "b", self._passage(stored))
        found += self._entry(OFFLINE, "broker", "o", of_copy(self._passage(copied)))
        if self.mirror_speaks:
            spoken = [each for each in stored if each in copied or each in self.mirrored]
            found += self._entry(OFFLINE, "mirror", "m", of_copy(self._passage(spoken)))
        if self.loaded:
            files = of_copy(self._passage(landed, runs=_runs(landed)), origin=None)
            found += self._entry(OFFLINE, "hdfs", "l", files, destination=ROOT, run=1)
        return found

    def _passage(self, lines: Sequence[int], **more: Any) -> Json:
        """CRCs are sums of the lines' numbers: which lines they are tells."""
        windows: dict[int, Json] = {}
        for each in lines:
            start = self.began + each // 10 * MINUTE
            one = windows.setdefault(start, {"start": start, "events": 0, "bytes": 0, "crc_sum": 0})
            windows[start] = one | {
                "events": one["events"] + 1,
                "bytes": one["bytes"] + LINE,
                "crc_sum": one["crc_sum"] + each + 1,
            }
        return {
            "topic": TOPIC,
            "topic_id": TOPIC_ID,
            "partition": 0,
            "offsets": [{"first": first, "count": count} for first, count in stretches(lines)],
            "windows": list(windows.values()),
            **more,
        }

    def _entry(
        self, cluster: str, tier: str, journal: str, passage: Json, **more: Any
    ) -> list[Said]:
        said = entry(tier, journal, 0, self.began + MINUTE, passages=[passage], **more)
        return [(cluster, said | {"cluster": cluster})]


def of_copy(passage: Json, origin: Json | None = OF) -> Json:
    return passage | {"topic": COPY, "topic_id": COPY_ID, "origin": origin}


def _runs(lines: Sequence[int], *, named: bool = False) -> list[Json]:
    return [
        run(
            *("s1", first, count),
            position=first * LINE if named else -1,
            end_position=(first + count) * LINE if named else -1,
            path="/var/log/a.log" if named else "",
        )
        for first, count in stretches(lines)
    ]


def stretches(lines: Sequence[int]) -> list[tuple[int, int]]:
    """First and count of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for each in sorted(lines):
        if found and sum(found[-1]) == each:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((each, 1))
    return found


@contextmanager
def folded(directory: Path, said: Sequence[Said]) -> Iterator[StoreReading]:
    """Each entry by itself, in this order."""
    with closing(AuditStore.open(directory)) as store, closing(store.reading()) as reading:
        for cluster, each in said:
            store.fold(cluster, body([each]), LedgerPositions())
        yield reading


def picture(reading: StoreReading, key: TopicKey = COPY_KEY, hours: int = 1) -> TopicPicture:
    return reading.picture(key, FIRST, FIRST + hours * HOUR, NOW, expected_millis=30 * 24 * HOUR)


def judged(directory: Path, said: Sequence[Said], key: TopicKey = COPY_KEY) -> TopicVerdict:
    with folded(directory, said) as reading:
        return reconcile(picture(reading, key))


def named(verdict: TopicVerdict) -> set[int]:
    """Lines that are said to be missing, by their bytes and numbers."""
    return {
        line
        for each in verdict.findings
        if each.host == "host-of-a" and each.path == "/var/log/a.log"
        for line in range(each.seq, each.seq + each.events)
        if each.position <= line * LINE < each.end_position
    }
