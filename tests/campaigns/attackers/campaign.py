"""Does a verdict hold against whoever may write to a topic or to `_audit`, and against a broker
that lies? Real agents ship beside them, and it is known here which lines were written.

A run has an agent, a topic and a table of its own; brokers, registry and audit are one for all. Its
directory keeps the agent's configuration, output and data, what landed, and what the audit said.
"""

import itertools
import json
import math
import re
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from audit.api.answers import JournalFault, TopicReport
from audit.reconciling.findings import Finding, State
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.campaigns.attackers.attackers import Attackers, Place
from tests.campaigns.attackers.judging import (
    KINDS,
    LEDGER,
    NOWHERE,
    Attack,
    End,
    Name,
    Span,
    judge,
    totals,
)
from tests.campaigns.attackers.lies import (
    AGENT,
    AUDIT,
    LOADER,
    BrokerLies,
    EntryLies,
    Lie,
    entries_of,
)
from tests.campaigns.attackers.script import ACTIONS, script_of
from tests.campaigns.attackers.site import WINDOW, Site, site
from tests.campaigns.command import Campaign, Runner, kept_in, remove, side_by_side
from tests.campaigns.loading import WELL, Loader
from tests.campaigns.outcomes import NoRun, Objection, Outcome, Say, outcome_of
from tests.campaigns.script import Action, Script
from tests.system.altered_batches import (
    reordered,
    with_altered_byte,
    with_crc_of,
    without_producer,
)

END: Final = "end.json"
SHIPPED: Final = 15.0
PATIENCE: Final = 120.0
SETTLED: Final = 30.0


class AttackersCampaign(Campaign):
    name = "attackers"
    about = __doc__
    runs = 5
    side_by_side = 4
    scripts = Script
    actions = ACTIONS

    def __init__(self) -> None:
        self._ends: list[End] = []

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(seed)

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """One site for all."""
        self._ends = []
        with ExitStack() as ends:
            made = tempfile.TemporaryDirectory(prefix="attackers-", ignore_cleanup_errors=True)
            directory = Path(ends.enter_context(made))
            lies = BrokerLies()
            running = ends.enter_context(site(directory, lies))
            pool = ends.enter_context(ThreadPoolExecutor(options.side_by_side))
            numbers = itertools.count(1)

            def run(script: Script) -> Outcome:
                directory = kept_in(options, script)
                remove(directory)
                played = Run(Servers(running, lies), script, directory, next(numbers), say)
                outcome = played.outcome()
                if played.end is not None:
                    self._ends.append(played.end)
                return outcome

            yield side_by_side(pool, run)

    def batch_size(self, options: Namespace) -> int:
        return 5 * super().batch_size(options)

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        return list(judge(read_end(directory / END)))

    def totals(self) -> Iterator[str]:
        return totals(self._ends)


CAMPAIGNS: Final = {"attackers": AttackersCampaign()}


def read_end(path: Path) -> End:
    return msgspec.json.decode(path.read_bytes(), type=End)


class Servers(NamedTuple):
    """What all runs share. The lies are those of the site's broker."""

    site: Site
    lies: BrokerLies


class Run:
    """One script. `end` is what came of it, once it has."""

    def __init__(
        self, servers: Servers, script: Script, directory: Path, number: int, say: Say
    ) -> None:
        self.end: End | None = None
        self._site, self._lies = servers
        self._script, self._directory, self._say = script, directory, say
        self._topic = f"attacked-{number:04}"
        self._host = f"web-{number:04}"
        self._log = directory / "app.log"
        self._lines: list[str] = []
        self._attacks: list[Callable[[], Attack]] = []
        self._load_errors: list[str] = []
        self._stands = False  # the agent
        self._attackers = Attackers(servers.site, self._topic, self._host)
        self._loader = Loader(
            directory,
            {
                "topics": [self._topic],
                "cluster": "test",
                "brokers": [servers.site.bootstrap(LOADER)],
                "registry": servers.site.registry.url,
                "window": WINDOW,
                "duplicate_share": 1,
            },
        )

    def outcome(self) -> Outcome:
        return outcome_of(self._script, self._directory, self._play, self._counts)

    def _counts(self) -> dict[str, int]:
        return {"lines": len(self._lines), "attacks": len(self._attacks)}

    def _play(self) -> Sequence[Objection]:
        self._site.make_topic(self._topic)
        inputs = [
            {
                "paths": [str(self._log)],
                "topic": self._topic,
                "format": "json",
                "time": {"field": "ts", "format": "epoch_ms"},
            }
        ]
        agent = AgentProcess(
            self._directory / self._host,
            brokers=self._site.bootstrap(AGENT),
            registry=self._site.registry.url,
            inputs=inputs,
            settings={"window": WINDOW, "batches": {"linger": 0.02}},
        )
        with agent:
            for action in self._script.actions:
                self._say(f"{self._topic}: {action}")
                self._do(agent, action)
            self._write(5)
            self._shipped(agent)
            self._load()
            self.end = self._end(self._settled())
            agent.kill()
        (self._directory / END).write_bytes(
            msgspec.json.format(msgspec.json.encode(self.end), indent=1)
        )
        return list(judge(self.end))

    def _do(self, agent: AgentProcess, action: Action) -> None:
        count = int(action.words[0]) if action.words else 0
        family, _, kind = action.verb.partition("-")
        match family:
            case "write":
                self._write(count)
            case "shipped":
                self._shipped(agent)
            case "load":
                self._load()
            case "store":
                self._shipped(agent)
                self._store(agent, action.verb, kind, count)
            case "show":
                self._write(count)
                self._shipped(agent)
                self._show(action.verb, kind)
            case "entries":
                self._shipped(agent)
                self._entries(agent, action.verb, kind, count)
            case _:
                self._shipped(agent)
                self._as_login(action.verb, count)

    def _as_login(self, verb: str, count: int) -> None:
        attackers = self._attackers
        match verb:
            case "forge" | "reforge":
                self._at(verb, attackers.forge(count, back=count if verb == "reforge" else 0))
            case "steal" | "steal-beside":
                self._at(verb, attackers.steal(count, beside=verb == "steal-beside"))
            case "speak" | "intrude":
                attackers.speak(count, signed=verb == "intrude")
                self._by(Attack(verb=verb, effective=True, host=self._host))
            case "claim":
                attackers.claim(attackers.forge(count))
                self._by(Attack(verb=verb, effective=True, host=attackers.thief))
            case "accept":
                attackers.accept()
                self._by(Attack(verb=verb, effective=False))
            case "retire":
                attackers.retire()
                self._by(Attack(verb=verb, effective=False))

    def _store(self, agent: AgentProcess, verb: str, kind: str, count: int) -> None:
        attackers = self._attackers
        added: list[range] = []  # offsets of batches that the agent has not sent

        def alike(batch: bytes) -> bytes:
            return with_crc_of(with_altered_byte(batch), batch)

        def invent(batch: bytes) -> None:
            added.append(attackers.store(attackers.invented_after(batch)))

        lie = {
            "altered": Lie(with_altered_byte),
            "alike": Lie(alike),
            "overruled": Lie(with_altered_byte),
            "reordered": Lie(reordered),
            "dropped": Lie(lambda batch: None),
            "repeated": Lie(follow=lambda batch: attackers.store(without_producer(batch))),
            "invented": Lie(follow=invent),
        }[kind]
        self._lies.store_next(self._topic, lie)
        self._write(count)
        self._shipped(agent)
        if kind == "overruled" and lie.is_told:
            wait_until(
                lambda: attackers.overrule(lie.batch, lie.offsets),
                within=PATIENCE,
                what="the broker has counted the batch",
            )
        is_new = kind != "repeated" and (kind != "reordered" or count > 1)

        def attack() -> Attack:
            if not lie.is_told:
                return Attack(verb=verb, effective=False)
            place = attackers.place_of(lie.batch, lie.offsets)
            for offsets in added:
                end = place.seqs.stop
                place = Place(place.source, range(end, end + len(offsets)), offsets)
            return _attack(verb, place, effective=is_new)

        self._attacks.append(attack)

    def _show(self, verb: str, kind: str) -> None:
        attackers = self._attackers
        before, batch = attackers.newest_batches()
        shown = attackers.shown(kind, before, batch)
        lie = self._lies.show(LOADER, self._topic, batch, shown)
        if kind == "restated":
            attackers.restate(shown)
        elif kind == "unstated":
            hidden = EntryLies("hidden", sys.maxsize)
            self._lies.show_entries(LOADER, entries_of(self._host), hidden)
        elif kind == "untold":
            self._lies.show_entries(AUDIT, self._is_difference, EntryLies("hidden", sys.maxsize))
        place = attackers.place_of(batch, lie.offsets)
        self._attacks.append(lambda: _attack(verb, place, effective=lie.is_told))

    def _is_difference(self, value: bytes) -> bool:
        """Whether an entry says that loads have read something else than the agent has sent."""
        return self._topic.encode() in value and b"not what the agent sent" in value

    def _entries(self, agent: AgentProcess, verb: str, kind: str, count: int) -> None:
        changes = {
            "altered": self._attackers.altered_entry,
            "invented": self._attackers.invented_entry,
        }
        lies = EntryLies(kind, 1 + count % 3, changes.get(kind))
        self._lies.show_entries(AUDIT, entries_of(self._host), lies)
        self._write(count)
        self._shipped(agent)
        has_effect = kind in {"hidden", *changes}
        self._attacks.append(
            lambda: Attack(verb=verb, effective=has_effect and lies.is_told, host=self._host)
        )

    def _at(self, verb: str, place: Place) -> None:
        self._by(_attack(verb, place, effective=place.offsets.start >= 0))

    def _by(self, attack: Attack) -> None:
        self._attacks.append(lambda: attack)

    def _write(self, count: int) -> None:
        now = time.time_ns() // 1_000_000
        with self._log.open("a") as file:
            for _ in range(count):
                line = f"line {len(self._lines)}"
                file.write(json.dumps({"ts": now, "message": line}) + "\n")
                self._lines.append(line)

    def _shipped(self, agent: AgentProcess) -> None:
        """Waits until all is acknowledged, whoever has the place of it. An agent whose producer's
        numbers were taken may stand still, which is waited for once."""
        size = self._log.stat().st_size if self._log.exists() else 0
        if self._stands:
            return
        stops = any(KINDS[attack().verb].stops for attack in self._attacks)
        until = time.monotonic() + (SHIPPED if stops else math.inf)

        def is_shipped() -> bool:
            self._stands = time.monotonic() > until
            status = agent.status() or {}
            inputs = status.get("inputs", [])
            is_done = bool(size) and bool(inputs) and not any(_lag(input_) for input_ in inputs)
            return self._stands or is_done

        wait_until(is_shipped, within=PATIENCE, what="all lines are shipped")
        time.sleep(1.0)  # the agent says so in the ledger

    def _load(self) -> None:
        code, tables = self._loader.load()
        if code not in WELL:
            errors = [str(table["error"]) for table in tables if table.get("error")]
            if not errors:
                raise NoRun(f"the load ended with {code}: {tables}")
            self._load_errors += errors

    def _settled(self) -> TopicReport:
        """The verdict, once it waits for nothing, or has not come to rest in time."""
        # What no load reads is waited for without an end.
        until = time.monotonic() + (2 * WINDOW if self._load_errors else SETTLED)

        def verdict() -> TopicReport | None:
            report = self._site.report(self._topic)
            if report is None:
                return None
            # The newest window is pending for a moment, and waits for nobody.
            rests = report.state is not State.PENDING and not report.waits_total
            return report if rests or time.monotonic() > until else None

        report = wait_until(verdict, what="the verdict is at rest")
        assert report is not None
        return report

    def _end(self, report: TopicReport) -> End:
        warehouse = self._loader.warehouse
        faults = [
            fault
            for host in (self._host, self._attackers.thief)
            for fault in self._site.journal_faults(host)
        ]
        return End(
            lines=self._lines,
            rows=[row["message"] for row in _rows(warehouse / self._topic, "message")],
            state=report.state.value,
            names=[
                *map(_of_finding, report.findings),
                *map(_of_fault, faults),
                *map(_of_dead, _rows(warehouse / "_dead" / self._topic, "reason", "offset")),
                *(name for words in self._load_errors for name in _of_words("load", words)),
                *(name for wait in report.waits for name in _of_words("wait", wait.words)),
            ],
            waits=[wait.words for wait in report.waits],
            attacks=[attack() for attack in self._attacks],
        )


def _lag(input_: Mapping[str, Any]) -> int:
    return int(input_["lag_bytes"])


def _attack(verb: str, place: Place, *, effective: bool) -> Attack:
    return Attack(
        verb=verb,
        effective=effective,
        source=place.source,
        seqs=(place.seqs.start, place.seqs.stop),
        offsets=(place.offsets.start, place.offsets.stop),
    )


def _of_finding(finding: Finding) -> Name:
    return Name(
        kind=finding.kind.value,
        tier=finding.tier,
        host=finding.host,
        source=finding.source,
        seqs=_span(finding.seq, finding.events),
        offsets=_span(finding.offset, finding.offsets),
        accepted=bool(finding.accepted),
        words=f"{finding.words} {finding.reason}",
    )


def _of_fault(fault: JournalFault) -> Name:
    return Name(
        kind=fault.kind, tier=LEDGER, host=fault.host, words=f"{fault.journal} {fault.first}"
    )


def _of_dead(row: Mapping[str, Any]) -> Name:
    return Name(kind=row["reason"], tier="hdfs", offsets=_span(row["offset"], 1))


def _of_words(kind: str, words: str) -> list[Name]:
    """What a load failed with, or is waited for, once for each stretch of offsets in it."""
    stretches = re.findall(r"offsets? (\d+)(?: to (\d+))?", words) or [("-1", "")]
    return [
        Name(
            kind=kind,
            tier="hdfs",
            offsets=_span(int(first), int(last or first) - int(first) + 1),
            words=words,
        )
        for first, last in stretches
    ]


def _span(first: int, count: int) -> Span:
    return (first, first + max(count, 1)) if first >= 0 else NOWHERE


def _rows(folder: Path, *columns: str) -> list[Mapping[str, Any]]:
    tables = [
        pq.read_table(path, columns=list(columns)) for path in sorted(folder.rglob("*.parquet"))
    ]
    return [row for table in tables for row in table.to_pylist()]
