"""One restart: files are written, the agent gets its signal, files rotate beside it. When all has
come to rest, topics and verdicts are read and judged.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from harness.crowding import Patience
from harness.standing_still import freeze
from harness.waiting import wait_until
from tests.restarts.judging import Judgement, Outcome, judge
from tests.restarts.plans import Moment, RestartPlan, Signal, TopicPlan
from tests.restarts.site import Agent, Site, is_gone, started
from tests.restarts.writers import Tally, TopicTally

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LIVED: Final = 5.0  # before its signal: who dies sooner is started again half a second later
LEAD: Final = 2.5  # between the announcement of a signal and the signal
FROZEN: Final = 3.0
AFTERWARDS: Final = Moment.AFTER_2S.seconds + 1.0
FOUND: Final = 120.0  # until new inputs are followed, or a restarted agent looks
SETTLED: Final = 120.0
WINDOW: Final = 10  # of `penstock up`
LINE: Final = re.compile(rb"<([^</>]+)/([^</>]+/[0-9]+)>")
_LOG_LINES: Final = 4


class Restart(msgspec.Struct, kw_only=True):
    """The instants of one restart. `signalled` and `back` are of the monotonic clock; `began` is of
    the other one: when the new agent was started, or the old one went on."""

    log_size: int  # of the agent's log, before
    signalled: float
    back: float = 0.0
    began: float = 0.0
    ready: float = 0.0  # seconds since `began`; 0 of an agent that was frozen
    look: float = 0.0  # the same, until it first logged what it found at a look

    @property
    def away(self) -> float:
        """Seconds in which no agent looked."""
        return self.back - self.signalled + max(0.0, self.look - self.ready)


class WrongTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that is not right, with all that helps to see why."""

    judgement: Judgement
    rotated: str  # when, from the signal on
    log: tuple[str, ...]  # what the agent logged that names the topic


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one restart."""

    seed: int
    signal: Signal
    restart: Restart
    judgements: tuple[Judgement, ...]
    wrong: tuple[WrongTopic, ...]

    @property
    def lines(self) -> int:
        return sum(each.lines for each in self.judgements)


class WritersProcess:
    """The writers of one restart, as a process; killed at the end if it still runs then."""

    def __init__(self, plan: RestartPlan, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(plan))
        self._tally = path.with_suffix(".tally")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.restarts.writers", str(path)],
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


def play(site: Site, agent: Agent, plans: Sequence[RestartPlan]) -> list[Played]:
    """Plays one restart after the other, and judges them all when the last is over."""
    happened = [_happened(site, agent, plan) for plan in plans]
    topics = [topic for plan in plans for topic in plan.topics]
    names = [topic.name for topic in topics]
    _settle(agent, topics)
    answers = _verdicts(site, names, [tally for _, tally in happened])
    seen = lines_of(site.addresses.brokers, names)
    played = []
    for plan, (restart, tally) in zip(plans, happened, strict=True):
        judgements = tuple(
            judge(
                topic,
                tally.topics[topic.name],
                seen[topic.name],
                answers.get(topic.name),
            )
            for topic in plan.topics
        )
        log = agent.log_since(restart.log_size)
        wrong = tuple(
            WrongTopic(
                judgement=each,
                rotated=_rotated(tally.topics[each.topic.name], restart),
                log=_lines_about(log, each.topic),
            )
            for each in judgements
            if each.outcome is not Outcome.RIGHT
        )
        played.append(
            Played(
                seed=plan.seed,
                signal=plan.signal,
                restart=restart,
                judgements=judgements,
                wrong=wrong,
            )
        )
    for plan in plans:
        agent.unfollow(_name(plan))
    wait_until(lambda: agent.status().get("inputs") == [], within=FOUND, what="inputs have ended")
    site.delete_topics(names)
    shutil.rmtree(site.logs)
    return played


def _happened(site: Site, agent: Agent, plan: RestartPlan) -> tuple[Restart, Tally]:
    with WritersProcess(plan, site.directory / f"{_name(plan)}.plan") as writers:
        agent.follow(_name(plan), [_input(topic) for topic in plan.topics])
        _wait_followed(agent, plan)
        writers.tell("write")
        restart = _restart(agent, plan.signal, writers)
        time.sleep(AFTERWARDS)
        restart.look = max(0.0, agent.first_look(restart.log_size, restart.began) - restart.began)
        return restart, writers.stop()


def _name(plan: RestartPlan) -> str:
    return f"r{plan.seed}"


def _input(topic: TopicPlan) -> dict[str, object]:
    return {"paths": [topic.pattern], "topic": topic.name, "name": topic.name}


def _followed(agent: Agent) -> dict[str, dict[str, int]]:
    """Inputs as the agent's status has them, by name; nothing while nobody answers."""
    return {each["name"]: each for each in agent.status().get("inputs", [])}


def _wait_followed(agent: Agent, plan: RestartPlan) -> None:
    def all_are() -> bool:
        inputs = _followed(agent)
        return all(
            topic.name in inputs
            and inputs[topic.name]["files"] >= topic.streams
            and not inputs[topic.name]["lag_bytes"]
            for topic in plan.topics
        )

    wait_until(all_are, within=FOUND, what="new files are followed", every=0.3)


def _settle(agent: Agent, topics: Iterable[TopicPlan]) -> None:
    """Waits until all is read. An agent that does not come so far is judged as it stands."""

    def is_read() -> bool:
        inputs = _followed(agent)
        return all(topic.name in inputs and not inputs[topic.name]["lag_bytes"] for topic in topics)

    with suppress(TimeoutError):
        wait_until(is_read, within=SETTLED, what="all files are read")


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
        restart.began = started(agent.pid())
        size, began = restart.log_size, restart.began
        wait_until(
            lambda: agent.ready(size, began) > 0, within=FOUND, what="it is ready", every=0.005
        )
        restart.ready = agent.ready(size, began) - began
    restart.back = time.monotonic()
    writers.tell("back", restart.back)
    return restart


def _verdicts(
    site: Site, names: Sequence[str], tallies: Sequence[Tally]
) -> dict[str, dict[str, object]]:
    """The report of these topics once none is pending, or as it is when patience is over."""
    begin = min(tally.first_line for tally in tallies) - WINDOW
    end = (max(tally.last_line for tally in tallies) // WINDOW + 1) * WINDOW
    patience = Patience(SETTLED)
    answers = {}
    while not patience.is_over():
        time.sleep(2)
        said = site.report(begin, end)
        answers = {name: said[name] for name in names if name in said}
        if len(answers) == len(names) and all(
            each["state"] != "pending" for each in answers.values()
        ):
            break
    return answers


def lines_of(bootstrap: str, topics: Sequence[str]) -> dict[str, Counter[str]]:
    """How often each line is in its topic, by any consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "restarts",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
        }
    )
    seen: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
    try:
        described = consumer.list_topics(timeout=30).topics
        waiting = {
            (topic, partition)
            for topic in topics
            if topic in described
            for partition in described[topic].partitions
        }
        consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in waiting])
        patience = Patience(SETTLED)
        while waiting and not patience.is_over():
            for message in consumer.consume(10_000, 0.5):
                error = message.error()
                if error is None:
                    for topic, line in LINE.findall(message.value() or b""):
                        seen[message.topic()][_known(topic, line, message.topic())] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard((message.topic(), message.partition()))
        assert not waiting, f"not read to their ends: {waiting}"
    finally:
        consumer.close()
    return seen


def _known(topic: bytes, line: bytes, expected: str) -> str:
    """A line of another topic is a line that nobody wrote here."""
    return line.decode() if topic.decode() == expected else f"{topic.decode()}/{line.decode()}"


def _rotated(tally: TopicTally, restart: Restart) -> str:
    begin, end = tally.rotated_at - restart.signalled, tally.rotated_by - restart.signalled
    return f"{begin:+.3f} to {end:+.3f} s from the signal"


def _lines_about(log: str, topic: TopicPlan) -> tuple[str, ...]:
    """Warnings first: what is normal is of interest if nothing else was said."""
    named = [line for line in log.splitlines() if topic.name in line]
    named.sort(key=lambda line: " WARNING " not in line)
    return tuple(named[:_LOG_LINES])
