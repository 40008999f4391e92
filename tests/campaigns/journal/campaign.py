"""Is an entry of systemd's journal lost without a statement, or shipped twice? Needs root.

A run has a journald, an agent and a topic of its own; broker and registry are one for all. A
witness sends entries, and has journalctl show each, with its number, before anything else happens.
Files are rotated, removed and cut, and agent, journalctl and journald end meanwhile. The run's
directory keeps what was written, what there is, and the agent's configuration and output.
"""

import functools
import json
import os
import signal
import subprocess
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from harness.hosts.journald import Journald, can_run
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.campaigns.attackers.site import Site as Servers
from tests.campaigns.attackers.site import site as servers
from tests.campaigns.command import Campaign, Runner, kept_in, remove, side_by_side
from tests.campaigns.history import History
from tests.campaigns.journal.judging import End, Statement, Written, judge
from tests.campaigns.journal.script import ACTIONS, WRITES, script_of
from tests.campaigns.nemesis import STOPS, Acts, Nemesis
from tests.campaigns.outcomes import NoRun, Objection, Outcome, Say, outcome_of, troubles
from tests.campaigns.script import Action, Script
from tests.system.agent.ledger import Ledger
from tests.system.agent.shipped import ends_of
from tests.system.agent.site import AUDIT, Site

_ROOT: Final = Path("/")
_END: Final = "end.json"
_WITNESS: Final = "witness"
PATIENCE: Final = 90.0


class JournalCampaign(Campaign):
    name = "journal"
    about = __doc__
    runs = 20
    side_by_side = 3
    actions = ACTIONS

    def options(self, parser: ArgumentParser) -> None:
        about = "a root filesystem made by debootstrap, whose systemd is used"
        parser.add_argument("--root", type=Path, default=_ROOT, help=about)

    def script_of(self, seed: int, options: Namespace) -> Script:
        return script_of(seed)

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """One site for all."""
        if not can_run():
            raise NoRun("needs root, unshare and systemd-journald")
        with ExitStack() as ends:
            made = tempfile.TemporaryDirectory(prefix="journal-", ignore_cleanup_errors=True)
            folder = Path(ends.enter_context(made))
            if options.root != _ROOT:
                _use_journalctl_of(options.root.resolve(), folder)
            running = ends.enter_context(servers(folder / "servers"))
            pool = ends.enter_context(ThreadPoolExecutor(options.side_by_side))

            def run(script: Script) -> Outcome:
                directory = kept_in(options, script)
                remove(directory)
                return Run(running, options.root, script, directory, say).outcome()

            yield side_by_side(pool, run)

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        return list(judge(msgspec.json.decode((directory / _END).read_bytes(), type=End)))


CAMPAIGNS: Final = {"journal": JournalCampaign()}


def _use_journalctl_of(root: Path, folder: Path) -> None:
    """Puts a journalctl that runs in the root filesystem first on the path. There, a link leads
    from the path of the root back to it, so that files have the same names inside and outside."""
    link = root / root.relative_to("/")
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to("/")
    program = folder / "journalctl"
    inside = f'mount --rbind /proc {root}/proc && exec chroot {root} journalctl "$@"'
    program.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{inside}' - \"$@\"\n")
    program.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


class Witness(Nemesis):
    """Does what a script says, and keeps its own copy of each entry."""

    def __init__(self, seed: int, say: Say, journald: Journald, agent: AgentProcess) -> None:
        self.history = History()
        super().__init__(self.history, seed, say)
        self._journald, self._agent = journald, agent
        self.written: list[Written] = []
        self._bursts = 0

    @property
    def acts(self) -> Acts:
        return {
            **{verb: functools.partial(self._write, verb) for verb in WRITES},
            "rotate": self._journald.rotate,
            "vacuum-files": lambda count: self._vacuum(f"files={count}"),
            "vacuum-size": lambda size: self._vacuum(f"size={size}M"),
            "cut": self._cut,
            "restart-journald": self._restart_journald,
            "kill-agent": self._agent.kill,
            "stop-agent": self._stop_agent,
            "start-agent": self.start_agent,
            "kill-journalctl": self._kill_journalctl,
            "pause": self.pause,
        }

    def look(self) -> None:
        code = self._agent.process.exit_code
        if code not in {None, 0, -signal.SIGKILL, -signal.SIGTERM}:
            self.trouble(f"the agent ended with {code}")

    def start_agent(self) -> None:
        if not self._agent.alive:
            self._agent.start()

    def _stop_agent(self) -> None:
        if self._agent.alive:
            self.stop("the agent", lambda: self._agent.terminate(within=STOPS))

    def _kill_journalctl(self) -> None:
        if self._agent.alive:
            command = ["pgrep", "-P", str(self._agent.process.pid), "journalctl"]
            found = subprocess.run(command, capture_output=True, check=False).stdout
            for process in found.split():
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)

    def _restart_journald(self) -> None:
        self._journald.stop()
        self._journald.start()

    def _write(self, verb: str, count: int) -> None:
        first = len(self.written)
        self._bursts += 1
        for index in range(first, first + count):
            message = f"{index} {self._words(verb)}"
            sent: str | bytes = message
            if verb == "binary":
                sent = message.encode() + b"\xff\x00\n" + self.chance.randbytes(30)
            fields = {"WITNESS": str(index), "BURST": str(self._bursts)}
            self._journald.send([sent], SYSLOG_IDENTIFIER=_WITNESS, **fields)
            self.written.append(Written(message))

        def shown() -> list[dict[str, Any]]:
            entries = self._entries(f"BURST={self._bursts}")
            return entries if len(entries) == count else []

        for entry in wait_until(shown, within=PATIENCE, what="journalctl shows what was sent"):
            index = int(entry["WITNESS"])
            number, micros = int(entry.get("__SEQNUM", 0)), int(entry["__REALTIME_TIMESTAMP"])
            self.written[index] = replace(self.written[index], number=number, micros=micros)

    def _words(self, verb: str) -> str:
        match verb:
            case "lines":
                return "failed\n  at one\n  at two\nend"
            case "long":
                return "x" * self.chance.randint(30_000, 60_000)
        return "" if verb == "binary" else "entry"

    def _vacuum(self, limit: str) -> None:
        place = f"--directory={self._journald.directory}"
        command = ["journalctl", place, f"--vacuum-{limit}", "--quiet"]
        subprocess.run(command, capture_output=True, check=True)

    def _cut(self, percent: int) -> None:
        if archived := sorted(self._journald.archived()):
            path = self.chance.choice(archived)
            for entry in self._entries(f"--file={path}"):
                if index := entry.get("WITNESS"):
                    written = self.written[int(index)]
                    self.written[int(index)] = replace(written, damaged=True)
            # A journald that has the file open would bring it back to its size, with zeros.
            self._journald.stop()
            os.truncate(path, path.stat().st_size * percent // 100)
            self._journald.start()

    def _entries(self, selection: str) -> list[dict[str, Any]]:
        place = (
            [] if selection.startswith("--file") else [f"--directory={self._journald.directory}"]
        )
        output = ["--output=json", "--output-fields=WITNESS", "--quiet"]
        command = ["journalctl", *place, *output, selection]
        result = subprocess.run(command, capture_output=True, check=False)
        return [json.loads(line) for line in result.stdout.splitlines()]


class Run:
    """One script."""

    def __init__(
        self, running: Servers, root: Path, script: Script, directory: Path, say: Say
    ) -> None:
        self._servers, self._root, self._say = running, root, say
        self._script, self._directory = script, directory
        self._end = End(written=[], messages=[], statements=[])

    def outcome(self) -> Outcome:
        return outcome_of(self._script, self._directory, self._play, self._counts)

    def _counts(self) -> dict[str, int]:
        end = self._end
        return {
            "entries": len(end.written),
            "lost": len(end.lost()),
            "lost and named": len(end.named()),
            "lost in damaged files": len(end.in_damaged_files()),
            "statements": len(end.statements),
            "statements without a loss": len(end.needless()),
        }

    def _play(self) -> Sequence[Objection]:
        with (
            Journald(root=self._root) as journald,
            Site(self._servers.broker, self._servers.registry.url, self._directory) as site,
        ):
            topic = site.topic(site.new_topic())
            audit = site.topic(AUDIT, starts=ends_of(site.brokers, AUDIT))
            place = {"directory": str(journald.directory), "identifiers": [_WITNESS]}
            agent = AgentProcess(
                self._directory / f"host-{topic.name}",
                brokers=self._servers.broker.bootstrap,
                registry=self._servers.registry.url,
                inputs=[{"topic": topic.name, "journal": place}],
            )
            witness = Witness(self._script.seed, self._say, journald, agent)

            def send_and_wait() -> None:
                """Entries whose arrival shows that the journal has been read."""
                witness.act(Action("write", ("5",)))
                witness.start_agent()
                last = witness.written[-1].message
                topic.wait_for_message(last)

            with agent:
                send_and_wait()
                witness.play(self._script.actions)
                send_and_wait()
                witness.act(Action("stop-agent"))
            topic.read_to_end()
            ledger = Ledger.of(audit.read_to_end(), {agent.host})
            self._end = End(
                written=witness.written,
                messages=topic.messages,
                statements=[
                    Statement(each["from_time"], each["to_time"], each["reason"])
                    for each in ledger.statements("unwatched", topic.name)
                    if each["traces"] == "changed"
                ],
            )
            (self._directory / _END).write_bytes(msgspec.json.encode(self._end))
            return [*troubles(witness.history), *judge(self._end)]
