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
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec.structs import replace

from harness.processes.server_process import ServerFailed
from harness.processes.waiting import wait_until
from tests.campaigns.leaders import LeaderWatch
from tests.campaigns.outcomes import POSSIBLE, Outcome, Say
from tests.campaigns.reading import Schemas, dead_letters, rows
from tests.campaigns.script import Action
from tests.campaigns.witness.application import now
from tests.campaigns.witness.brokers import Brokers
from tests.campaigns.witness.judging import false_unknowns, judge
from tests.campaigns.witness.pipeline import CLUSTER, GRACE, WINDOW, Pipeline
from tests.campaigns.witness.programs import Program
from tests.campaigns.witness.rules import is_of_an_agent
from tests.campaigns.witness.script import Script
from tests.campaigns.witness.tenant import Tenant
from tests.campaigns.witness.verdict import Called, Cell, Seen, Verdict

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


class Batch(msgspec.Struct):
    pipeline: Pipeline
    scripts: Sequence[Script]
    say: Callable[[str], None] = lambda _: None
    _tenants: list[Tenant] = []
    _leaders: LeaderWatch | None = None

    def run(self) -> list[Outcome]:
        shared = {each.shared for each in self.scripts}
        assert len(shared) == 1, "scripts of a batch have the same shared events"
        schemas = Schemas(self.pipeline.registry.http_port)
        for script in self.scripts:
            name = f"run-{script.seed}-{next(_made)}"
            self._tenants.append(Tenant(self.pipeline, script, name, schemas))
        self._create_topics()
        if self.pipeline.replicas > 1:
            self._leaders = LeaderWatch(self.pipeline.map_address, dict.fromkeys(self.topics, 1))
            self._leaders.start()
        pool = ThreadPoolExecutor(max_workers=len(self.scripts))
        try:
            return self._run(pool, next(iter(shared)))
        finally:
            if self._leaders is not None:
                self._leaders.end(within=60)
                self.pipeline.happened["lead changed"] += self._leaders.changes
                self.pipeline.happened["unclean leader"] += self._leaders.unclean
            self.pipeline.loader.end()
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
        self.pipeline.loader.end()
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
        for tenant in self._tenants:
            tenant.truth.done.add(event.verb)
        if event.verb in {"kill-broker", "freeze-broker"}:
            self._note_led()
        self._acts()[event.verb](*map(float, event.words))

    def _acts(self) -> dict[str, Callable[..., object]]:
        """What each shared event does."""
        pipeline, brokers = self.pipeline, self.pipeline.brokers
        unclean = [each.topic for each in self._tenants if each.script.unclean]

        def of_cluster(act: Callable[[Brokers], object]) -> Callable[[], object]:
            return lambda: brokers is not None and act(brokers)

        return {
            "kill-broker": lambda: (pipeline.thaw_broker(), pipeline.kill_broker()),
            "start-broker": pipeline.start_broker,
            "start-brokers": pipeline.start_broker,
            "kill-brokers": of_cluster(lambda them: (pipeline.thaw_broker(), them.kill_all())),
            "kill-others": of_cluster(lambda them: them.kill_others(self.topics)),
            "start-others": of_cluster(lambda them: them.start_others(unclean)),
            "wipe-broker": of_cluster(Brokers.wipe),
            "freeze-broker": pipeline.freeze_broker,
            "thaw-broker": pipeline.thaw_broker,
            "fill-broker-disk": pipeline.fill_broker_disk,
            "free-broker-disk": pipeline.free_broker_disk,
            "wipe-audit": lambda: (pipeline.wipe_audit(), pipeline.audit.spawn()),
            "load": self._load_if_possible,
            "load-at": self._load_if_possible,
            "kill-load": self._kill_load,
            "mark": lambda: None,
            **{
                f"{what}-{name}": partial(act, program)
                for what, act in _PROGRAM.items()
                for name, program in pipeline.programs.items()
            },
        }

    def _kill_load(self, after: float) -> None:
        self.pipeline.loader.begin(topics=self.topics)
        time.sleep(after)
        self.pipeline.loader.end()
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
        loader, ahead = self.pipeline.loader, self.pipeline.ahead(clock)
        code, tables = loader.load(*options, topics=self.topics, environment=ahead)
        if code == -1:
            raise TimeoutError("a load did not end")
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
        with suppress(TimeoutError):  # what is missing then stands in the verdict
            wait_until(lambda: all(_heard(each, end) for each in self._tenants), within=HEARD)

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
            self.pipeline.loader.load("--check-files=all", topics=spoilt)

    def _wait_judged(self) -> None:
        loaded = now()

        def is_judged() -> bool:
            report = self.pipeline.api("report", from_=self._since, to=now(), cluster=CLUSTER)
            mine = [each for each in report.get("topics", []) if each["topic"] in set(self.topics)]
            return (
                report.get("as_of", 0) > loaded + (GRACE + 1) * 1000
                and len(mine) == len(self._tenants)
                and not any(each["state"] == "pending" for each in mine)
            )

        with suppress(TimeoutError):
            wait_until(is_judged, within=JUDGED)
        # What is older than `grace` by now may just have become a fault.
        time.sleep(1.0)

    @property
    def _since(self) -> int:
        return min(each.truth.since for each in self._tenants) - 2 * 3_600_000

    # What is said, and what is so

    def _outcome(self, tenant: Tenant) -> Outcome:
        truth = tenant.truth
        root = self.pipeline.loader.warehouse
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
        unsaid = [each for one in objections if "hole" in one.rule for each in one.lines]
        kept = tenant.script.kept and not error
        counts = {
            "lines written": len(lines),
            "lost": sum(each.text not in found and truth.must_arrive(each) for each in lines),
            "lost and unsaid": len(unsaid),
            "double": len(texts) - len(found),
            "with kept files": int(kept),
            "statements of unknown": sum(map(is_of_an_agent, verdict.findings)) if kept else 0,
            "false unknowns": len(needless),
            **{f"{POSSIBLE}{verb}": count for verb, count in sorted(tenant.done.items())},
        }
        said = [f"said: {verdict.state or 'nothing'} ({verdict.exit_code})"]
        said += [f"found: {each}" for each in verdict.findings] if objections or needless else []
        return Outcome(
            tenant.script, objections, counts=counts, error=error, figures=said, remarks=needless
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
        return [called for each in found for called in Called.of(each)]


def _play(tenant: Tenant, act: Sequence[Action]) -> None:
    for action in act:
        tenant.do(action)


def _heard(tenant: Tenant, end: int) -> bool:
    agents = tenant.agents()
    if not agents:
        return False
    newest = max(agents, key=lambda each: each["heard"])
    return bool(newest["until"] >= end)


def run(pipeline: Pipeline, scripts: Sequence[Script], say: Say) -> list[Outcome]:
    """The outcomes, in the order of the scripts; where a run could not be made, they say so."""
    before = Counter(pipeline.happened)
    began = time.monotonic()
    try:
        found = Batch(pipeline, scripts, say).run()
    except (ServerFailed, TimeoutError, OSError) as error:
        return [Outcome(each, (), error=str(error)[-2000:]) for each in scripts]
    happened = pipeline.happened - before  # to all of them; counted once
    found[0] = replace(found[0], counts={**found[0].counts, **happened})
    return [replace(each, seconds=time.monotonic() - began) for each in found]
