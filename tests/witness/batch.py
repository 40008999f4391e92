"""Scripts run side by side on one pipeline, brought to rest, loaded, read, and judged.

They have their shared events in common, and wait for each other there; in between each does what
it does alone. At the end everything is brought back, and nothing is asked before all tiers could
have spoken: each wait is for a condition, with a bound that a busy machine does not reach.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Final

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from harness.crowding import Patience
from harness.server_process import ServerFailed
from tests.witness.application import now
from tests.witness.judging import false_unknowns, judge
from tests.witness.leaders import Leaders
from tests.witness.objections import Objection
from tests.witness.pipeline import CLUSTER, GRACE, WINDOW, Pipeline
from tests.witness.programs import Program
from tests.witness.reading import Schemas, dead_letters, rows
from tests.witness.script import Action, Script
from tests.witness.tenant import Tenant
from tests.witness.verdict import Called, Cell, Seen, Verdict

HEARD: Final = 120.0  # for agents to say that they are past the end
JUDGED: Final = 120.0  # for a verdict that waits for nobody
SPOILS: Final = {"cut-tail", "flip-segment"}
READ_BEFORE: Final = {
    "kill-broker",
    "kill-brokers",
    "kill-others",
    "load",
    "load-at",
    "kill-load",
}  # logs are read before these
_PROGRAM: Final = {
    "kill": Program.kill,
    "start": Program.spawn,
    "freeze": Program.freeze,
    "thaw": Program.thaw,
}
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
TORN: Final = "the CRC does not match"  # says a load of a batch
_LOADS: Final = 5
_topics = threading.Lock()
_made = iter(range(1_000_000))


class Outcome(msgspec.Struct, frozen=True):
    """What became of one script."""

    script: Script
    objections: tuple[Objection, ...]
    state: str
    exit_code: int
    lines: int
    lost: int
    double: int
    findings: tuple[Called, ...] = ()
    error: str = ""  # the run could not be made: nobody knows
    # its own actions, as far as possible
    done: Counter[str] = msgspec.field(default_factory=Counter)
    needless: tuple[Objection, ...] = ()  # what was called unknown, and need not have been

    @property
    def right(self) -> bool:
        return not self.objections and not self.error

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({each.kind for each in self.objections}))


class Batch(msgspec.Struct):
    pipeline: Pipeline
    scripts: Sequence[Script]
    say: Callable[[str], None] = lambda _: None
    _tenants: list[Tenant] = []
    _leaders: Leaders | None = None

    def run(self) -> list[Outcome]:
        shared = {each.shared for each in self.scripts}
        assert len(shared) == 1, "scripts of a batch have the same shared events"
        schemas = Schemas(self.pipeline.registry.http_port)
        for script in self.scripts:
            name = f"run-{script.seed}-{next(_made)}"
            self._tenants.append(Tenant(self.pipeline, script, name, schemas))
        self._create_topics()
        if self.pipeline.replicas > 1:
            self._leaders = Leaders(self.pipeline.map_address, self.topics)
        pool = ThreadPoolExecutor(max_workers=len(self.scripts))
        try:
            with self._leaders or nullcontext():
                return self._run(pool, next(iter(shared)))
        finally:
            if self._leaders is not None:
                self.pipeline.happened["lead changed"] += self._leaders.changes.total()
                self.pipeline.happened["unclean leader"] += self._leaders.unclean.total()
            self.pipeline.kill_load()
            self.pipeline.bring_back()
            list(pool.map(lambda each: each.close(), self._tenants))
            pool.shutdown()

    @property
    def topics(self) -> list[str]:
        return [each.topic for each in self._tenants]

    @property
    def _damaged(self) -> list[str]:
        return [each.topic for each in self._tenants if each.truth.done & SPOILS]

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.pipeline.bootstrap, "log_level": 0})
        wanted = [
            NewTopic(
                each.topic,
                num_partitions=1,
                replication_factor=self.pipeline.replicas,
                config=UNCLEAN if each.script.unclean else {},
            )
            for each in self._tenants
        ]
        for future in admin.create_topics(wanted).values():
            future.result(120)
        self.pipeline.topics = self.topics

    def _run(self, pool: ThreadPoolExecutor, shared: Sequence[Action]) -> list[Outcome]:
        began = time.monotonic()
        acts = [each.script.acts() for each in self._tenants]
        for number in range(len(shared) + 1):
            list(pool.map(_play, self._tenants, [each[number] for each in acts]))
            if number < len(shared):
                if shared[number].verb in READ_BEFORE:
                    list(pool.map(lambda each: each.remember_log(), self._tenants))
                self._happens(shared[number])
                if shared[number].verb in {"start-broker", "start-brokers"}:
                    list(pool.map(lambda each: each.remember_log(), self._tenants))
        self.say(f"acted {time.monotonic() - began:.0f} s")
        self.pipeline.kill_load()
        self.pipeline.bring_back()
        offline = self.pipeline.offline() & set(self.topics)
        if offline:
            self.pipeline.repair(sorted(offline))
        list(pool.map(lambda each: each.bring_back(), self._tenants))
        self.say(f"brought back {time.monotonic() - began:.0f} s")
        self._wait_heard()
        self._retire()
        self.say(f"heard {time.monotonic() - began:.0f} s")
        self._load_all(pool)
        self.say(f"loaded {time.monotonic() - began:.0f} s")
        self._wait_judged()
        self.say(f"judged {time.monotonic() - began:.0f} s")
        return list(pool.map(self._outcome, self._tenants))

    def _happens(self, event: Action) -> None:
        pipeline = self.pipeline
        for tenant in self._tenants:
            tenant.truth.done.add(event.verb)
        if event.verb in {"kill-broker", "freeze-broker"}:
            self._note_led()
        if event.verb == "kill-broker":
            pipeline.thaw_broker()
            pipeline.kill_broker()
        elif event.verb in {"start-broker", "start-brokers"}:
            pipeline.start_broker()
        elif event.verb == "kill-brokers" and pipeline.brokers is not None:
            pipeline.thaw_broker()
            pipeline.brokers.kill_all()
        elif event.verb == "kill-others" and pipeline.brokers is not None:
            pipeline.brokers.kill_others(self.topics)
        elif event.verb == "start-others" and pipeline.brokers is not None:
            pipeline.brokers.start_others(
                [each.topic for each in self._tenants if each.script.unclean]
            )
        elif event.verb == "wipe-broker" and pipeline.brokers is not None:
            pipeline.brokers.wipe()
        elif event.verb == "freeze-broker":
            pipeline.freeze_broker()
        elif event.verb == "thaw-broker":
            pipeline.thaw_broker()
        elif event.verb == "fill-broker-disk":
            pipeline.fill_broker_disk()
        elif event.verb == "free-broker-disk":
            pipeline.free_broker_disk()
        elif event.verb in {f"{what}-{name}" for what in _PROGRAM for name in pipeline.programs}:
            what, _, name = event.verb.partition("-")
            _PROGRAM[what](pipeline.programs[name])
        elif event.verb == "wipe-audit":
            pipeline.wipe_audit()
            pipeline.audit.spawn()
        elif event.verb == "load":
            self._load_if_possible()
        elif event.verb == "load-at":
            self._load_if_possible(clock=float(event.words[0]))
        elif event.verb == "kill-load":
            pipeline.begin_load(self.topics)
            time.sleep(float(event.words[0]))
            pipeline.kill_load()
            for tenant in self._tenants:
                for each in tenant.history.standing():
                    each.perhaps_loaded = True

    def _note_led(self) -> None:
        """How many partitions the broker leads that is about to be in trouble."""
        if self._leaders is not None and self.pipeline.brokers is not None:
            led = self._leaders.led_by(self.pipeline.brokers.id_in_trouble)
            self.pipeline.happened["leader killed or frozen"] += led

    def _load_if_possible(self, clock: float = 0.0) -> None:
        if self.pipeline.serving and self.pipeline.registry.ready():
            self._load(clock=clock)

    def _load(self, *options: str, clock: float = 0.0) -> tuple[int, dict[str, str]]:
        """Exit code, and why a table was not loaded; what was, is known of each record."""
        found = {each.topic: each.history.standing() for each in self._tenants}
        code, tables = self.pipeline.load(self.topics, *options, clock=clock)
        failed = {each["table"]: each["error"] for each in tables if each.get("error")}
        ended = {each["table"] for each in tables} - set(failed)
        for topic, standing in found.items():
            for each in standing:
                each.perhaps_loaded = True
                each.loaded = each.loaded or topic in ended
        return code, failed

    # Until nothing more can come

    def _wait_heard(self) -> None:
        end = now() // (WINDOW * 1000) * (WINDOW * 1000) + WINDOW * 1000
        patience = Patience(HEARD)
        waiting = list(self._tenants)
        while waiting and not patience.is_over():
            waiting = [each for each in waiting if not _heard(each, end)]
            time.sleep(0.3)

    def _retire(self) -> None:
        """An agent whose data directory is gone came back under another id: operators say so."""
        for tenant in self._tenants:
            agents = tenant.agents()
            newest = max((each["heard"] for each in agents), default=0)
            for each in agents:
                if each["heard"] < newest and each["state"] != "retired":
                    self.pipeline.operate(
                        *("audit", "retire", tenant.topic, "--agent-id", each["agent"]),
                        *("--reason", "its data directory is gone"),
                        *("--config", str(self.pipeline.audit.config)),
                        *("--audit", f"http://127.0.0.1:{self.pipeline.audit_port}"),
                    )

    def _load_all(self, pool: ThreadPoolExecutor) -> None:
        """As an operator does: what a load asks to be decided is decided, and it is tried again."""
        options: set[str] = set()
        failed: dict[str, str] = {}
        for _ in range(_LOADS):
            before = failed
            list(pool.map(lambda each: each.remember_log(), self._tenants))
            code, failed = self._load(*sorted(options))
            for tenant in self._tenants:
                tenant.truth.unloaded = failed.get(tenant.topic, "")
            torn = [each for each in self._damaged if TORN in failed.get(each, "")]
            if torn and code in {7, 8}:  # 8, if landed files of another table are wrong as well
                self.pipeline.repair(torn)
                options.add("--accept-gap")
            elif code in {0, 3, 8} or (code not in {4, 6, 7} and failed == before):
                break
            elif code == 4:
                options.add("--accept-gap")
            elif code == 6:
                options |= {"--set=duplicate_share=1", "--set=dead_share=1"}
            elif code == 7 and self._damaged:
                self.pipeline.repair(self._damaged)
                options.add("--accept-gap")
            self.say(f"load ended with {code}: {'; '.join(failed.values())[:300]}")
        spoilt = [each.topic for each in self._tenants if each.truth.landed]
        if spoilt:  # sizes and names are looked at by each load, what is in files only by this
            self.pipeline.load(spoilt, "--check-files=all")

    def _wait_judged(self) -> None:
        loaded = now()
        patience = Patience(JUDGED)
        while not patience.is_over():
            report = self.pipeline.api("report", from_=self._since, to=now(), cluster=CLUSTER)
            mine = [each for each in report.get("topics", []) if each["topic"] in set(self.topics)]
            if (
                report.get("as_of", 0) > loaded + (GRACE + 1) * 1000
                and len(mine) == len(self._tenants)
                and not any(each["state"] == "pending" for each in mine)
            ):
                break
            time.sleep(0.5)
        # What is older than `grace` by now may just have become a fault.
        time.sleep(1.0)

    @property
    def _since(self) -> int:
        return min(each.truth.since for each in self._tenants) - 2 * 3_600_000

    # What is said, and what is so

    def _outcome(self, tenant: Tenant) -> Outcome:
        truth = tenant.truth
        root = self.pipeline.root
        dead = dead_letters(root, tenant.topic)
        seen = Seen(rows(root, tenant.topic), tenant.history.records, dead)
        with _topics:
            verdict = self._verdict(tenant)
        objections = judge(truth, seen, verdict)
        needless = false_unknowns(truth, seen, verdict) if tenant.script.kept else []
        error = tenant.error
        if not tenant.agent.alive:
            error = f"its agent does not run: {tenant.agent.process.last_words(5)}"
        texts = [each.text for each in seen.rows]
        found = set(texts)
        lines = list(truth.lines())
        return Outcome(
            tenant.script,
            tuple(objections),
            verdict.state,
            verdict.exit_code,
            len(lines),
            sum(each.text not in found and truth.must_arrive(each) for each in lines),
            len(texts) - len(found),
            verdict.findings,
            error,
            tenant.done,
            tuple(needless),
        )

    def _verdict(self, tenant: Tenant) -> Verdict:
        topic = tenant.topic
        code, report, stderr = self.pipeline.report(topic, self._since)
        named = {"cluster": CLUSTER, "topic": topic}
        times: dict[str, object] = {"from_": self._since, "to": now()}
        shown = self.pipeline.api("topic", **named, **times, step=WINDOW * 1000)
        hosts = self.pipeline.api("hosts", **named, size=500).get("items", [])
        found = self._findings(named, times)
        (mine,) = report.get("topics", []) or [{}]
        landed = [each["events"] for each in mine.get("tiers", []) if each["tier"] == "hdfs"]
        return Verdict(
            exit_code=code,
            state=mine.get("state", ""),
            findings=tuple(found),
            cells=tuple(
                Cell(each["start"], each["length"], each["state"], bool(each["waits"]))
                for each in shown.get("cells", [])
            ),
            waits=tuple(each["words"] for each in mine.get("waits", [])),
            missing=mine.get("missing", 0),
            excess=mine.get("excess", 0),
            hosts_missing=sum(each["missing"] for each in hosts),
            host_states=tuple(each["state"] for each in hosts),
            landed_events=landed[0] if landed else -1,
            flow=mine.get("flow", {}),
            stderr=stderr,
        )

    def _findings(self, named: dict[str, str], times: dict[str, object]) -> list[Called]:
        found: list[dict[str, Any]] = []
        for page in range(1, 100):
            answer = self.pipeline.api("findings", **named, **times, page=page, size=500)
            found += answer.get("items", [])
            if len(found) >= answer.get("page", {}).get("total", 0):
                break
        return [Called.of(each) for each in found]


def fills_broker_disk(script: Script) -> bool:
    return any(each.verb == "fill-broker-disk" for each in script.shared)


def _play(tenant: Tenant, act: Sequence[Action]) -> None:
    for action in act:
        tenant.do(action)


def _heard(tenant: Tenant, end: int) -> bool:
    agents = tenant.agents()
    if not agents:
        return False
    newest = max(agents, key=lambda each: each["heard"])
    return bool(newest["until"] >= end)


def run(pipeline: Pipeline, scripts: Sequence[Script], say: Callable[[str], None]) -> list[Outcome]:
    """The outcomes, in the order of the scripts; where a run could not be made, they say so."""
    try:
        return Batch(pipeline, scripts, say).run()
    except (ServerFailed, TimeoutError, OSError) as error:
        return [Outcome(each, (), "", -1, 0, 0, 0, error=str(error)[-2000:]) for each in scripts]
