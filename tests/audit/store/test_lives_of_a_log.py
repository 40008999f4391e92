"""A log that is written, counted, loaded and cut, in any order; whose statements come in any order,
in any chunks, and again. What is called missing is what was lost before it was loaded: by its file
and numbers, all of it, and nothing else."""

import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from audit.reconciling.findings import FaultKind, Finding, State
from audit.reconciling.topic_verdict import by_host, totals
from tests.audit.audited_ledger import FIRST, NOW, judged
from tests.audit.log_entries import lines, withdrawn
from tests.audit.store.said import MINUTE, ROOT, TOPIC, Json, entry, passage, run, window

FOREIGN = "foreign"
_AGENTS = ("a", "b")


@dataclass(frozen=True)
class Event:
    """`time` is its record's; `own` is what its header says, and where its row lands."""

    source: str
    seq: int
    time: int
    own: int


@dataclass
class Log:
    """What is true, and what is said of it."""

    said: list[Json] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # in the log
    begin: int = 0  # what lies before is lost
    epoch: int = 0
    counted: int = 0
    loaded: int = 0
    told: Counter[str] = field(default_factory=Counter)
    seqs: Counter[str] = field(default_factory=Counter)
    landed: Counter[Event] = field(default_factory=Counter)
    lost: list[Event] = field(default_factory=list)

    def write(self, source: str, count: int, minute: int, own: int) -> None:
        time = FIRST + minute * MINUTE
        first = len(self.events)
        seq = self.seqs[source]
        self.seqs[source] += count
        of_its_own = FIRST + own * MINUTE if source == FOREIGN else time
        self.events += [Event(source, seq + at, time, of_its_own) for at in range(count)]
        if source == FOREIGN:
            return
        runs = [lines(seq, count, f"file-of-{source}")]
        said = passage(0, first, count, [window(time, count)], runs=runs, leader_epoch=self.epoch)
        beat = {"until": NOW, "topics": [TOPIC]}
        self._say("agent", source, time, passages=[said], heartbeats=[beat])

    def count(self) -> None:
        self._pass("broker", "broker", self.counted)
        self.counted = len(self.events)

    def load(self) -> None:
        self._pass("hdfs", "loader", self.loaded)
        self.landed.update(self.events[self.loaded :])
        self.loaded = len(self.events)

    def cut(self, begin: int, end: int) -> None:
        """The log loses what lies before the one and from the other on; who had read further goes
        back to it, and who had not come so far goes on where it begins."""
        size = len(self.events)
        begin = min(max(begin, self.begin), size)
        end = min(max(end, begin), size)
        self.epoch += 1
        gone: list[Json] = []
        for first, after in ((self.begin, begin), (end, size)):
            if first < after:
                lost = self.events[first:after]
                self.lost += [each for each in lost if not self.landed[each]]
                gone.append(withdrawn(first, after - first, self.epoch, resumes=end))
        del self.events[end:]
        self.begin = begin
        self.counted = max(min(self.counted, end), begin)
        self.loaded = max(min(self.loaded, end), begin)
        self._say("broker", "broker", FIRST, withdrawn=gone)

    def rise(self) -> None:
        """Another leader."""
        self.epoch += 1

    def _pass(self, tier: str, journal: str, first: int) -> None:
        events = self.events[first:]
        if not events:
            return
        times = Counter(each.own if tier == "hdfs" else each.time for each in events)
        crcs = Counter(each.time for each in events)
        windows = [
            window(start, times[start], bytes=0, crc_sum=crcs[start] * 7)
            for start in sorted({*times, *crcs})
        ]
        runs = [
            run(f"file-of-{each.source}", each.seq, 1) for each in events if each.source != FOREIGN
        ]
        said = passage(0, first, len(events), windows, leader_epoch=self.epoch)
        more: Json = {}
        if tier == "hdfs":
            said["runs"] = runs
            more = {"destination": ROOT, "run": self.told[journal]}
        self._say(tier, journal, max(times), passages=[said], **more)

    def _say(self, tier: str, journal: str, time: int, **lists: object) -> None:
        said = entry(tier, journal, self.told[journal], time, **lists)
        self.told[journal] += 1
        self.said.append(said)


@st.composite
def lives(draw: st.DrawFn, loaded: bool = True) -> Log:
    log = Log()
    steps = st.one_of(
        st.tuples(
            *(st.just("write"), st.sampled_from([*_AGENTS, FOREIGN]), st.integers(1, 5)),
            *(st.integers(0, 3), st.integers(0, 150)),
        ),
        st.tuples(st.sampled_from(["count", "rise", *(("load",) if loaded else ())])),
        st.tuples(st.just("cut"), st.just(0) | st.integers(0, 12), st.integers(0, 12)),
    )
    for step in draw(st.lists(steps, max_size=14)):
        match step:
            case ("write", source, count, minute, own):
                log.write(source, count, minute, own)
            case ("cut", begin, end):
                log.cut(begin, end)
            case (what,):
                getattr(log, what)()
    if not log.told["loader" if loaded else _AGENTS[0]]:  # nobody would speak of files
        log.write(_AGENTS[0], 1, 0, 0)
    log.count()
    if loaded:
        log.load()
    return log


def _named(findings: list[Finding]) -> Counter[tuple[str, int]]:
    return Counter(
        (each.source, each.seq + at)
        for each in findings
        if each.source
        for at in range(each.events)
    )


@settings(max_examples=50, deadline=None, phases=[Phase.generate])
@given(lives() | lives(loaded=False), st.randoms(use_true_random=False), st.integers(1, 6))
def test_what_is_missing_is_what_was_lost(log: Log, shuffled: random.Random, size: int) -> None:
    """Also where nobody loads: what the log has lost was at the brokers once, and is nowhere."""
    said = list(log.said)
    if size > 1:
        said += shuffled.sample(said, len(said) // 2)
        shuffled.shuffle(said)
    chunks = [said[at : at + size] for at in range(0, len(said), size)]
    with tempfile.TemporaryDirectory() as directory:
        verdict = judged(Path(directory), chunks)
    lost = Counter((f"file-of-{e.source}", e.seq) for e in log.lost if e.source != FOREIGN)
    assert _named(verdict.findings) == lost
    assert {each.kind for each in verdict.findings} <= {FaultKind.MISSING}
    assert (verdict.state is State.MISSING) == bool(verdict.findings)
    assert not verdict.waits
    if not log.lost:
        assert verdict.state is State.COMPLETE
        assert all(each.missing == each.excess == 0 for each in verdict.windows)
    for each in verdict.windows:
        first, last = each.sums[0].events, each.sums[-1].events
        lacking = each.missing + each.pending
        assert first - lacking + each.excess + each.unclaimed + each.elsewhere == last
    assert verdict.totals == totals(verdict.findings)
    assert verdict.totals.missing == sum(each.offsets for each in verdict.findings) == len(log.lost)
    assert verdict.hosts == by_host(verdict.findings)
    assert sum(each.totals.missing for each in verdict.hosts) == verdict.totals.missing


def test_what_was_lost_is_still_named_when_its_offset_has_long_been_given_again() -> None:
    """Ten minutes after all tiers have gone past it, where they lie is not kept by window."""
    log = Log()
    log.write(FOREIGN, 1, 0, 0)
    log.count()
    log.cut(0, 0)
    log.write(FOREIGN, 1, 0, 11)
    log.write("a", 1, 0, 0)
    log.count()
    log.load()
    with tempfile.TemporaryDirectory() as directory:
        verdict = judged(Path(directory), [[each] for each in log.said])
    (found,) = verdict.findings
    assert (found.kind, found.partition) == (FaultKind.MISSING, 0)
    assert (found.offset, found.offsets, verdict.totals.missing) == (0, 1, 1)
