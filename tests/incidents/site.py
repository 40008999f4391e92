"""A site to be broken: `penstock up`, hosts beside it, and an operator at a shell.

The operator knows what `penstock status`, `penstock report`, the page and alerts show, and types
the commands that they show, each on the host that it names. The hosts beside `penstock up` are
processes, so `systemctl` and `timedatectl` there are scripts that have these processes started, or
their clock put right; all else is as at a site.

Applications write lines and count them, so that what lands can be compared with the truth.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pyarrow.dataset
from playwright.sync_api import sync_playwright

from audit.alerting.notices import Notice
from harness.penstock.agent import AgentProcess
from harness.penstock.program import PenstockProcess
from harness.processes.waiting import wait_until
from penstock.directory.places import Places, Ports
from tests.audit.alerting.listener import Listener
from tests.audit.page.browsing import ARGUMENTS, CHROMIUM
from tests.incidents.pictures import palette_png
from tests.penstock.up.started import ALL, WITH_MIRROR, Up, free_base

WINDOW: Final = 10  # seconds, as `penstock up` has it
PATIENCE: Final = 240.0
REASON: Final = "known, and looked into"
_PACE: Final = 0.05  # seconds from line to line
_AGAIN: Final = 60.0  # before a command is typed once more
_SHOWING: Final = re.compile("penstock (report|status)")  # these are seen already
_PATH: Final = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
_IN_PROBLEM: Final = re.compile("`(penstock up --restart [^`]+)`")
_ON_HOST: Final = re.compile(r"  # on (?:the host of )?(.+)")
_TOOLS: Final = ("systemctl", "timedatectl")
_TOOL: Final = '#!/bin/sh\necho "${0##*/} $*" >> requests\n'


class Typed(msgspec.Struct, frozen=True):
    """A command, its exit code, and what it printed."""

    command: str
    code: int
    output: str


class Taken(msgspec.Struct, frozen=True):
    """What was seen and typed in one incident. Times are seconds since the fault."""

    name: str
    first_sign: float
    alerted: float
    green: float
    status: Typed
    report: Typed
    alert: str
    cure: tuple[Typed, ...]
    written: int
    landed: int
    dead: int
    lost: int
    last: tuple[str, ...]  # the first lines of status and report, in the end


class Application:
    """Writes a line every twentieth of a second into a file that an agent follows."""

    def __init__(self, path: Path, line: Callable[[int], str]) -> None:
        self.path = path
        self.line = line
        self.lines: list[str] = []
        self._writes = threading.Event()
        self._writes.set()
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._thread.start()

    def write(self, count: int) -> None:
        with self._turn:
            new = [self.line(len(self.lines) + number) for number in range(count)]
            with self.path.open("a") as file:
                file.writelines(f"{line}\n" for line in new)
            self.lines += new

    def pause(self) -> None:
        self._writes.clear()

    def go_on(self, path: Path | None = None) -> None:
        """With `path`, in another file."""
        self.path = path or self.path
        self._writes.set()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_PACE):
            if self._writes.is_set():
                self.write(1)


def numbered(number: int) -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z order {number} was shipped"


class Inbox(Listener):
    """A webhook that keeps what the audit sends."""

    def raised(self, *kinds: str) -> dict[str, Any] | None:
        """The latest message of these kinds about something that stands."""
        latest = {each["id"]: each for each in self.posts}
        stand = [each for each in latest.values() if each["status"] == "raised"]
        return next((each for each in stand if each["kind"] in kinds), None)


class Site:
    """`with Site(directory) as site`; an incident breaks something, then `take` and `cured`."""

    def __init__(
        self,
        directory: Path,
        *,
        mirror: bool = False,
        around: Callable[[Places], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """`around`: is entered before anything is started, and left in the end."""
        self.directory, self.mirror = directory, mirror
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.places = Places(directory / "penstock-data")
        self._around = around(self.places)
        self.ports = Ports.beginning_at(free_base())
        self.inbox = Inbox()
        self.applications: dict[str, Application] = {}
        self.broker_pages = [f"http://127.0.0.1:{self.ports.broker_http}"]
        self.tools: dict[str, Callable[[], None]] = {}  # what a host's tool does, by `unit@host`
        self.typed: list[Typed] = []
        self._typed_at: dict[str, float] = {}
        self.lost = 0  # lines that cannot be brought back
        self._broke = self._sign = self._alerted = 0.0
        self._hosts = directory / "hosts"  # a folder for each, with its tools
        self._ends = ExitStack()
        self.began = datetime.now(UTC)

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            ends.enter_context(self._around)
            ends.enter_context(self.inbox)
            options = ["--mirror"] if self.mirror else []
            options += ["--port-base", str(self.ports.zookeeper), "--load-every", "10s"]
            self.up = Up(
                self.directory / "up.log",
                *("--dir", "penstock-data", "--alert", self.inbox.url, *options),
                directory=self.directory,
            )
            ends.enter_context(self.up)
            for name in WITH_MIRROR if self.mirror else ALL:
                self.up.until(f"{name} runs")
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    # Hosts and what they write

    def host(
        self,
        name: str,
        topic: str,
        line: Callable[[int], str] = numbered,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[AgentProcess, Application]:
        """An agent and an application on a host of that name."""
        logs = self.directory / name / "logs"
        application = Application(logs / f"{topic}-1.log", line)
        self._ends.callback(application.end)
        self.applications[topic] = application
        format_ = {} if line is numbered else {"format": "json", "time": {"field": "at"}}
        agent = AgentProcess(
            self.directory / name,
            brokers=f"127.0.0.1:{self.ports.broker}",
            registry=f"http://127.0.0.1:{self.ports.registry}",
            inputs=[
                {"topic": topic, "paths": [f"{logs}/*.log"], "partition_by": "random", **format_}
            ],
            settings={
                "cluster": "dc1" if self.mirror else "local",
                "window": WINDOW,
                "ledger_interval": 2,
            },
            environment=environment,
        )
        self.program(agent, "penstock-agent", name)
        return agent, application

    def program(self, program: PenstockProcess, unit: str, host: str) -> None:
        """Runs it on a host until the end."""

        def start() -> None:
            if program.process.alive:
                program.process.terminate()
            program.process.spawn()

        self._ends.callback(program.process.kill)
        self.tools[f"{unit}@{host}"] = start
        start()

    def wait_read(self, agent: AgentProcess) -> None:
        """Until the agent has shipped all that is written."""

        def is_read() -> bool:
            status = agent.status()
            return bool(status) and all(e["acknowledged"] == e["size"] for e in status["files"])

        wait_until(is_read, within=PATIENCE, what="the agent has shipped all")

    def landed(self, topic: str) -> list[str]:
        table = self.places.warehouse / (f"dc1.{topic}" if self.mirror else topic)
        if not any(table.glob("dt=*")):
            return []
        rows = pyarrow.dataset.dataset(table).to_table().to_pylist()
        return [str(each.get("message") or each.get("order")) for each in rows]

    def counts(self) -> tuple[int, int, int]:
        """How many lines were written, have landed, and are dead letters."""
        written = sum(len(each.lines) for each in self.applications.values())
        landed = [line for topic in self.applications for line in self.landed(topic)]
        assert len(landed) == len(set(landed)), "each line has landed once"
        return written, len(landed), sum(len(self.landed(f"{t}.dead")) for t in self.applications)

    # What is seen

    def run(self, command: str) -> Typed:
        """In a shell that knows the pipeline."""
        ran = self._run(f"{self._environment}\n{command}", self.directory, _PATH)
        return msgspec.structs.replace(ran, command=command)

    def _run(self, command: str, folder: Path, path: str) -> Typed:
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Typed(command, ended.returncode, ended.stdout)

    @property
    def _environment(self) -> str:
        """What the operator's shell has read."""
        if self.mirror:
            return ". penstock-data/environment-offline"
        pages = ",".join(self.broker_pages)
        return f". penstock-data/environment; export PENSTOCK_BROKER_HTTP={pages}"

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.run("penstock status --json").output.splitlines()[-1]
        )
        return found

    def broke(self) -> None:
        """The fault has just happened."""
        self._broke = time.monotonic()

    def since(self) -> float:
        return time.monotonic() - self._broke

    def green(self, *, whole: bool = False) -> bool:
        """Whether status is well and no alert is raised; `whole`: and the report is complete."""
        status = self.run("penstock status --json")
        if status.code or json.loads(status.output.splitlines()[-1])["alerts"]:
            return False
        return not whole or self.run(self.report).code == 0

    def waiting(self) -> int:
        """How many alerts are known and not raised."""
        listed: dict[str, int] = json.loads(self.run("penstock alert list --json").output)
        return listed["waiting_total"]

    @property
    def report(self) -> str:
        return f"penstock report --from {self.began:%Y-%m-%dT%H:%M}"

    def settle(self) -> None:
        """Until lines have landed and all is well."""
        wait_until(
            lambda: all(self.landed(each) for each in self.applications) and self.green(),
            within=PATIENCE,
            what="lines have landed, and all is well",
            every=2,
        )

    def take(self, picture: Path, *kinds: str) -> None:
        """Waits for the first sign and an alert of these kinds, and keeps what is to be seen."""

        def sign() -> bool:
            found = self.status()
            return bool(
                found["problems"]
                or found["headline"]
                or found["failing_loads"]
                or found["alerts"] > 0
            )

        wait_until(sign, within=PATIENCE, what="a sign", every=0.5)
        self._sign = self.since()
        notice = wait_until(
            lambda: self.inbox.raised(*kinds), within=PATIENCE, what=f"an alert: {kinds}", every=0.5
        )
        assert notice
        self._alerted = self.since()
        time.sleep(3)
        self._shown = self.run("penstock status"), self.run("penstock report --day today")
        self._photograph(picture)
        self._alert = notice_text(notice)

    def _photograph(self, file: Path) -> None:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
            page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            page.goto(f"http://127.0.0.1:{self.ports.audit}/")
            page.locator("table tbody tr").first.wait_for()
            page.wait_for_timeout(1_000)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(
                palette_png(page.screenshot(animations="disabled"), browser.new_page())
            )
            browser.close()

    # What is typed

    def type(self, command: str) -> None:
        """As it is shown, on the host that it names, with a reason where it asks for one."""
        self._typed_at[command] = time.monotonic()
        command = command.replace("REASON", f"'{REASON}'")
        on_host = _ON_HOST.search(command)
        self.typed.append(self._type_on(on_host[1], command) if on_host else self.run(command))

    def _type_on(self, host: str, command: str) -> Typed:
        """On a host beside `penstock up`."""
        folder = self._hosts / host
        requests = folder / "requests"
        if not folder.exists():
            folder.mkdir(parents=True)
            for name in _TOOLS:
                (folder / name).write_text(_TOOL)
                (folder / name).chmod(0o755)
        typed = self._run(command, folder, f"{folder}:{_PATH}")
        for request in requests.read_text().splitlines():
            words = request.split()
            self.tools[f"{words[-1] if words[0] == 'systemctl' else 'clock'}@{host}"]()
        requests.unlink()
        return typed

    def by_hand(self, words: str) -> None:
        """What no command does."""
        self.typed.append(Typed(f"# by hand: {words}", 0, ""))

    def shown_commands(self) -> Iterator[str]:
        """What page, status and alerts show just now."""
        status = self.status()
        if status["command"]:
            yield status["command"]
        for problem in status["problems"]:
            yield from _IN_PROBLEM.findall(problem)
        listed = self.run("penstock alert list --json").output
        for alert in json.loads(listed)["items"] if listed.startswith("{") else ():
            if alert["command"]:
                yield alert["command"]

    def cure(self) -> None:
        """Types what is shown until all is well."""
        deadline = time.monotonic() + PATIENCE
        while not self.green():
            assert time.monotonic() < deadline, (self.run("penstock status"), self.typed)
            for command in self.shown_commands():
                before = time.monotonic() - self._typed_at.get(command, 0)
                if before > _AGAIN and not _SHOWING.search(command):
                    self.type(command)
            time.sleep(2)

    def cured(self, name: str) -> Taken:
        """Cures it, lets applications end, and compares what landed with what they wrote."""
        self.cure()
        green = self.since()
        for each in self.applications.values():
            each.pause()
        counted = (0, 0, 0)

        def all_is_there() -> bool:
            nonlocal counted
            counted = written, landed, dead = self.counts()
            return self.green(whole=True) and written == landed + dead + self.lost

        try:
            wait_until(all_is_there, within=PATIENCE, every=2)
        except TimeoutError:
            words = "{} lines were written, {} have landed, {} are dead letters"
            raise AssertionError(f"{name}: {words.format(*counted)}") from None
        written, landed, dead = counted
        last = [self.run(each) for each in ("penstock status", self.report)]
        return Taken(
            name=name,
            first_sign=self._sign,
            alerted=self._alerted,
            green=green,
            status=self._shown[0],
            report=self._shown[1],
            alert=self._alert,
            cure=tuple(self.typed),
            written=written,
            landed=landed,
            dead=dead,
            lost=self.lost,
            last=tuple(each.output.splitlines()[0] for each in last),
        )


def notice_text(notice: Mapping[str, Any]) -> str:
    """The notice as a person reads it: the fields that a mail has."""
    facts = msgspec.convert(notice, Notice).facts()
    lines = [f"{name + ':':<10} {value}" for name, value in facts]
    return "\n".join([notice["title"], "", *lines, "", *notice["words"]])
