"""Does an agent that is killed, stopped or frozen beside the rotation of its files lose a line,
ship one twice, or make a topic unknown that lost nothing?

A restart: files are written, the agent gets its signal, files rotate beside it. When all has come
to rest, topics and verdicts are read and judged. What an agent went through before matters, too:
play as many seeds as there were to see a restart again.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from confluent_kafka.admin import AdminClient

from harness.processes.frozen_processes import freeze
from harness.processes.waiting import wait_until
from tests.campaigns.command import REPOSITORY, Campaign, Runner
from tests.campaigns.outcomes import NO_RUN, Objection, Outcome, Say
from tests.campaigns.reading import messages
from tests.campaigns.restarts.judging import Judgement, Verdict, judge
from tests.campaigns.restarts.script import (
    ACTIONS,
    MOMENTS,
    SIGNALS,
    Script,
    Signal,
    TopicPlan,
    script_of,
)
from tests.campaigns.restarts.site import AGENTS, Agent, Site, is_gone, started
from tests.campaigns.restarts.writers import Tally

LIVED: Final = 5.0  # before its signal: who dies sooner is started again half a second later
LEAD: Final = 2.5  # between the announcement of a signal and the signal
FROZEN: Final = 3.0
AFTERWARDS: Final = max(MOMENTS) + 1.0
FOUND: Final = 120.0  # until new inputs are followed, or a restarted agent looks
SETTLED: Final = 120.0
WINDOW: Final = 10  # of `penstock up`
LINE: Final = re.compile(rb"<([^</>]+)/([^</>]+/[0-9]+)>")
_LOG_LINES: Final = 4


class RestartsCampaign(Campaign):
    name = "restarts"
    about = __doc__
    runs = 3
    scripts = Script
    actions = ACTIONS
    judges_again = False

    def options(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        about = "who keeps the agent's files: `penstock up`, or systemd with the shipped unit"
        add("--environment", choices=list(SIGNALS), default="up", help=about)
        add("--penstock", type=Path, default=REPOSITORY, help="another checkout")
        add("--work-in", type=Path, help="works in this folder, and leaves it there")

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(seed, options.environment)

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """One site for all, and one agent for those of one environment."""
        with ExitStack() as ends:
            if options.work_in:
                options.work_in.mkdir(parents=True, exist_ok=True)
                directory = Path(tempfile.mkdtemp(dir=options.work_in.resolve()))
            else:
                made = tempfile.TemporaryDirectory(prefix="restarts-", ignore_cleanup_errors=True)
                directory = Path(ends.enter_context(made))
            site = ends.enter_context(Site(directory, options.penstock.resolve()))
            agents: dict[str, Agent] = {}

            def run(scripts: Sequence[Any]) -> Sequence[Outcome]:
                environment = scripts[0].environment
                if environment not in agents:
                    agents[environment] = ends.enter_context(AGENTS[environment](site))
                try:
                    return [play(site, agents[environment], [each])[0] for each in scripts]
                except NO_RUN as failure:
                    return [Outcome(each, (), error=str(failure)) for each in scripts]

            yield run


CAMPAIGNS: Final = {"restarts": RestartsCampaign()}


class Restart(msgspec.Struct, kw_only=True):
    """The instants of one restart. `signalled` and `back` are of the monotonic clock; `began` is of
    the other one: when the new agent was started, or the old one went on."""

    log_size: int  # of the agent's log, before
    signalled: float
    back: float = 0.0
    began: float = 0.0
    ready: float = 0.0  # seconds since `began`; 0 of an agent that was frozen
    look: float = 0.0  # the same, until it first logged what it found at a look

    def __str__(self) -> str:
        away = self.back - self.signalled + max(0.0, self.look - self.ready)
        since = "its start" if self.ready else "SIGCONT"
        ready = f"ready {self.ready:.2f} s, " if self.ready else ""
        return f"away {away:.2f} s; {ready}first look {self.look:.2f} s after {since}"


class WritersProcess:
    """The writers of one restart, as a process; killed at the end if it still runs then."""

    def __init__(self, topics: Sequence[TopicPlan], seed: int, path: Path) -> None:
        path.write_bytes(msgspec.json.encode((seed, topics)))
        self._tally = path.with_suffix(".tally")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.restarts.writers", str(path)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answered("ready")

    def tell(self, verb: str, *words: object) -> None:
        """Returns when it has done so."""
        assert self._process.stdin is not None
        print(verb, *words, file=self._process.stdin, flush=True)
        self._answered(verb)

    def _answered(self, expected: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == expected, f"the writers ended: {said}"

    def stop(self) -> Tally:
        self.tell("stop")
        return msgspec.json.decode(self._tally.read_bytes(), type=Tally)

    def __enter__(self) -> "WritersProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def play(site: Site, agent: Agent, scripts: Sequence[Script]) -> list[Outcome]:
    """Plays one restart after the other, and judges them all when the last is over."""
    began = time.monotonic()
    topics = {each.seed: each.topics(site.logs) for each in scripts}
    happened = [_happened(site, agent, each, topics[each.seed]) for each in scripts]
    names = [topic.name for each in topics.values() for topic in each]

    def is_read() -> bool:
        inputs = _followed(agent)
        return all(each in inputs and not inputs[each]["lag_bytes"] for each in names)

    with suppress(TimeoutError):  # an agent that does not come so far is judged as it stands
        wait_until(is_read, within=SETTLED, what="all files are read")
    answers = _verdicts(site, names, [tally for _, tally in happened])
    seen = lines_of(site.addresses.brokers, names)
    outcomes = []
    for script, (restart, tally) in zip(scripts, happened, strict=True):
        log = agent.log_since(restart.log_size)
        judged = [
            judge(each, tally.topics[each.name], seen[each.name], answers.get(each.name))
            for each in topics[script.seed]
        ]
        wrong = [each for each in judged if each.verdict is not Verdict.RIGHT]
        outcomes.append(
            Outcome(
                script,
                [_objection(each, tally, restart, log) for each in wrong],
                time.monotonic() - began,
                {"topics": len(judged), "lines": sum(each.lines for each in judged)},
                figures=[f"{script.signal}, {script.environment}: {restart}"],
            )
        )
    for script in scripts:
        agent.unfollow(f"r{script.seed}")
    wait_until(lambda: agent.status().get("inputs") == [], within=FOUND, what="inputs have ended")
    site.delete_topics(names)
    shutil.rmtree(site.logs)
    return outcomes


def _objection(wrong: Judgement, tally: Tally, restart: Restart, log: str) -> Objection:
    """With all that helps to see why: warnings of the log that name the topic first."""
    topic, times = wrong.topic, tally.topics[wrong.topic.name]
    begin, end = times.rotated_at - restart.signalled, times.rotated_by - restart.signalled
    named = [line for line in log.splitlines() if topic.name in line]
    named.sort(key=lambda line: " WARNING " not in line)
    words = (
        f"{topic.name} {wrong.state}: {topic.style} at {topic.moment:g} s"
        f" ({begin:+.3f} to {end:+.3f} s from the signal); {topic.files} files, {topic.pattern}"
    )
    more = [*wrong.words, *(f"log: {line}" for line in named[:_LOG_LINES])]
    return Objection(wrong.verdict, "\n        ".join([words, *more]))


def _happened(
    site: Site, agent: Agent, script: Script, topics: Sequence[TopicPlan]
) -> tuple[Restart, Tally]:
    name = f"r{script.seed}"

    def all_are_followed() -> bool:
        inputs = _followed(agent)
        return all(
            each.name in inputs
            and inputs[each.name]["files"] >= each.streams
            and not inputs[each.name]["lag_bytes"]
            for each in topics
        )

    with WritersProcess(topics, script.seed, site.directory / f"{name}.plan") as writers:
        inputs: list[dict[str, object]] = [
            {"paths": [each.pattern], "topic": each.name, "name": each.name} for each in topics
        ]
        agent.follow(name, inputs)
        wait_until(all_are_followed, within=FOUND, what="new files are followed", every=0.3)
        writers.tell("write")
        restart = _restart(agent, script.signal, writers)
        time.sleep(AFTERWARDS)
        restart.look = max(0.0, agent.first_look(restart.log_size, restart.began) - restart.began)
        return restart, writers.stop()


def _followed(agent: Agent) -> dict[str, dict[str, int]]:
    """Inputs as the agent's status has them, by name; nothing while nobody answers."""
    return {each["name"]: each for each in agent.status().get("inputs", [])}


def _restart(agent: Agent, how: Signal, writers: WritersProcess) -> Restart:
    pid = agent.pid()
    time.sleep(max(0.0, LIVED - LEAD - (time.time() - started(pid))))
    restart = Restart(log_size=agent.log_size(), signalled=time.monotonic() + LEAD)
    writers.tell("signal-at", restart.signalled)
    time.sleep(max(0.0, restart.signalled - time.monotonic()))
    if how is Signal.FREEZE:
        freeze(pid)
        time.sleep(FROZEN / 2)
        writers.tell("dead")
        time.sleep(FROZEN / 2)
        os.kill(pid, signal.SIGCONT)
        restart.began = time.time()
    else:
        agent.end(how)
        wait_until(lambda: is_gone(pid), within=FOUND, what="the agent is gone", every=0.001)
        writers.tell("dead")
        wait_until(lambda: bool(agent.pid()), within=FOUND, what="it is started", every=0.002)
        size, began = restart.log_size, started(agent.pid())
        ready = wait_until(
            lambda: agent.ready(size, began), within=FOUND, what="it is ready", every=0.005
        )
        restart.began, restart.ready = began, ready - began
    restart.back = time.monotonic()
    writers.tell("back", restart.back)
    return restart


def _verdicts(
    site: Site, names: Sequence[str], tallies: Sequence[Tally]
) -> dict[str, dict[str, object]]:
    """The report of these topics once none is pending, or as it is when patience is over."""
    begin = min(tally.first_line for tally in tallies) - WINDOW
    end = (max(tally.last_line for tally in tallies) // WINDOW + 1) * WINDOW
    answers: dict[str, dict[str, object]] = {}

    def are_settled() -> bool:
        said = site.report(begin, end)
        answers.update({name: said[name] for name in names if name in said})
        states = {each["state"] for each in answers.values()}
        return len(answers) == len(names) and "pending" not in states

    with suppress(TimeoutError):
        wait_until(are_settled, within=SETTLED, every=4)
    return answers


def lines_of(bootstrap: str, topics: Sequence[str]) -> dict[str, Counter[str]]:
    """How often each line is in its topic, by any consumer."""
    described = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    seen: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
    for name in topics:
        for partition in described[name].partitions if name in described else ():
            for message in messages(bootstrap, name, partition, within=SETTLED):
                for topic, line in LINE.findall(message.value):
                    seen[name][_known(topic, line, name)] += 1
    return seen


def _known(topic: bytes, line: bytes, expected: str) -> str:
    """A line of another topic is a line that nobody wrote here."""
    return line.decode() if topic.decode() == expected else f"{topic.decode()}/{line.decode()}"
