"""Does a verdict hold against whoever may write to a topic, to `_audit`, or in the name of an
agent's producer? Real agents ship beside them, and it is known here which lines were written.

A run has an agent, a topic and a table of its own; brokers, registry and audit are one for all. Its
directory keeps the agent's configuration, output and data, what landed, and what the audit said.
"""

import itertools
import json
import math
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from audit.api.answers import TopicReport
from audit.reconciling.findings import State
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.campaigns.attackers.attackers import Attackers
from tests.campaigns.attackers.judging import COLLISION, Attack, End, is_named, judge
from tests.campaigns.attackers.script import ACTIONS, script_of
from tests.campaigns.attackers.site import WINDOW, Site, site
from tests.campaigns.command import Campaign, Runner, kept_in, remove, side_by_side
from tests.campaigns.loading import WELL, Loader
from tests.campaigns.outcomes import NoRun, Objection, Outcome, Say, outcome_of
from tests.campaigns.script import Action, Script

SHIPPED: Final = 15.0
PATIENCE: Final = 120.0
SETTLED: Final = 30.0
NAMES: Final = {
    "forge": ("missing", "duplicated", COLLISION),
    "reforge": ("missing", "duplicated", COLLISION),
    # Whose lines it takes the place of: the agent may find that its batch is not there.
    "steal": ("changed", "missing", "duplicated", COLLISION),
    "steal-beside": ("changed", "missing", "duplicated", COLLISION),
    "speak": ("unproven",),
}


class AttackersCampaign(Campaign):
    name = "attackers"
    about = __doc__
    runs = 5
    scripts = Script
    actions = ACTIONS
    judges_again = False

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(seed)

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """One site for all."""
        with ExitStack() as ends:
            made = tempfile.TemporaryDirectory(prefix="attackers-", ignore_cleanup_errors=True)
            running = ends.enter_context(site(Path(ends.enter_context(made))))
            pool = ends.enter_context(ThreadPoolExecutor(options.side_by_side))
            numbers = itertools.count(1)

            def run(script: Script) -> Outcome:
                directory = kept_in(options, script)
                remove(directory)
                return Run(running, script, directory, next(numbers), say).outcome()

            yield side_by_side(pool, run)


CAMPAIGNS: Final = {"attackers": AttackersCampaign()}


class Run:
    """One script."""

    def __init__(self, site: Site, script: Script, directory: Path, number: int, say: Say) -> None:
        self._site, self._script, self._directory, self._say = site, script, directory, say
        self._topic = f"attacked-{number}"
        self._host = f"web-{number}"
        self._log = directory / "app.log"
        self._lines: list[str] = []
        self._attacks: list[Attack] = []
        self._named: Sequence[Attack] = ()

    def outcome(self) -> Outcome:
        return outcome_of(self._script, self._directory, self._play, self._counts)

    def _counts(self) -> dict[str, int]:
        effective = Counter(attack.verb for attack in self._attacks if attack.effective)
        named = Counter(attack.verb for attack in self._named)
        return {
            "lines": len(self._lines),
            "attacks": len(self._attacks),
            **{f"{verb} in effect": count for verb, count in sorted(effective.items())},
            **{f"{verb} named": count for verb, count in sorted(named.items())},
        }

    def _play(self) -> Sequence[Objection]:
        self._site.make_topic(self._topic)
        self._attackers = Attackers(self._site, self._topic)
        self._loader = Loader(
            self._directory,
            {
                "topics": [self._topic],
                "cluster": "test",
                "brokers": [self._site.broker.bootstrap],
                "registry": self._site.registry.url,
                "window": WINDOW,
                "duplicate_share": 1,
            },
        )
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
            brokers=self._site.broker.bootstrap,
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
            end = self._end(self._settled())
            self._named = [attack for attack in self._attacks if is_named(end, attack)]
            agent.kill()
        (self._directory / "end.json").write_text(json.dumps(_plain(end), indent=1))
        return list(judge(end))

    def _do(self, agent: AgentProcess, action: Action) -> None:
        count = int(action.words[0]) if action.words else 0
        match action.verb:
            case "write":
                self._write(count)
            case "shipped":
                self._shipped(agent)
            case "load":
                self._load()
            case "forge" | "reforge":
                self._shipped(agent)
                back = count if action.verb == "reforge" else 0
                self._attacked(action.verb, took=self._attackers.forge(count, back=back))
            case "steal" | "steal-beside":
                self._shipped(agent)
                beside = action.verb == "steal-beside"
                self._attacked(action.verb, took=self._attackers.steal(count, beside=beside))
            case "speak":
                self._shipped(agent)
                self._attacked(action.verb, took=self._attackers.speak(count, self._host))

    def _attacked(self, verb: str, *, took: bool) -> None:
        self._attacks.append(Attack(verb, took, NAMES[verb]))

    def _write(self, count: int) -> None:
        now = time.time_ns() // 1_000_000
        with self._log.open("a") as file:
            for _ in range(count):
                line = f"line {len(self._lines)}"
                file.write(json.dumps({"ts": now, "message": line}) + "\n")
                self._lines.append(line)

    def _shipped(self, agent: AgentProcess) -> None:
        """All of it acknowledged, whoever has the place of it."""
        size = self._log.stat().st_size if self._log.exists() else 0
        # An agent whose producer's numbers were taken may stand still.
        stolen = any(attack.verb.startswith("steal") for attack in self._attacks)
        until = time.monotonic() + (SHIPPED if stolen else math.inf)

        def is_shipped() -> bool:
            if time.monotonic() > until:
                return True
            said = agent.status() or {}
            inputs = said.get("inputs", [])
            return bool(size) and all(not each["lag_bytes"] for each in inputs) and bool(inputs)

        wait_until(is_shipped, within=PATIENCE, what="all lines are shipped")
        time.sleep(1.0)  # the agent says so in the ledger

    def _load(self) -> None:
        code, said = self._loader.load()
        if code not in WELL:
            raise NoRun(f"the load ended with {code}: {said}")

    def _settled(self) -> TopicReport:
        """The verdict, once it waits for nothing, or has not come to rest in time."""
        until = time.monotonic() + SETTLED

        def verdict() -> TopicReport | None:
            found = self._site.report(self._topic)
            if found is None:
                return None
            # The newest window is pending for a moment, and waits for nobody.
            rests = found.state is not State.PENDING and not found.waits_total
            return found if rests or time.monotonic() > until else None

        report = wait_until(verdict, what="the verdict is at rest")
        assert report is not None
        return report

    def _end(self, report: TopicReport) -> End:
        warehouse = self._loader.warehouse
        rows = _column(warehouse / self._topic, "message")
        return End(
            lines=self._lines,
            rows=rows,
            dead=sorted(set(_column(warehouse / "_dead" / self._topic, "reason"))),
            state=report.state.value,
            kinds=sorted({each.kind.value for each in report.findings if each.is_open}),
            waits=[each.words for each in report.waits],
            attacks=self._attacks,
        )


def _column(folder: Path, name: str) -> list[str]:
    files = sorted(folder.rglob("*.parquet"))
    return [value for each in files for value in pq.read_table(each).column(name).to_pylist()]


def _plain(end: End) -> dict[str, object]:
    return {
        "state": end.state,
        "kinds": list(end.kinds),
        "dead": list(end.dead),
        "waits": list(end.waits),
        "lines": len(end.lines),
        "rows": list(end.rows),
        "attacks": [(each.verb, each.effective) for each in end.attacks],
    }
