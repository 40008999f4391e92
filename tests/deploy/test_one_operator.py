"""Two operators at once, one who died, one who was stopped; and what a support bundle leaves out:
by Ansible's own programs, on this machine."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from harness.hosts.ansible_tools import ansible_tool, environment
from harness.logins.made_secrets import made_secret
from harness.processes.waiting import wait_until
from tests.ansible.conftest import HERE

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
]

WITHIN: Final = 300


class Said(NamedTuple):
    code: int
    output: str


class Controller:
    """Plays of one task, against a lock in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = directory / "roll" / "roll.json"
        self.environment = environment(directory)

    def start(self, *tasks: dict[str, Any]) -> subprocess.Popen[str]:
        play = self.directory / f"play-{len(list(self.directory.glob('play-*')))}.yml"
        play.write_text(
            yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": list(tasks)}])
        )
        program = ansible_tool("ansible-playbook")
        assert program is not None
        return subprocess.Popen(
            [program, "-i", "here,", "-e", json.dumps(HERE), str(play)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def play(self, *tasks: dict[str, Any]) -> Said:
        with self.start(*tasks) as process:
            output, _ = process.communicate(timeout=WITHIN)
            return Said(process.returncode, output)

    def roll(self, state: str, **given: Any) -> dict[str, Any]:
        return {"penstock.pipeline.roll": {"state": state, "path": str(self.lock), **given}}

    def holder(self) -> Any:
        return json.loads(self.lock.read_text())


def below(process: int) -> list[int]:
    """Its children, and theirs."""
    found: list[int] = []
    for each in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, each.read_text().split()):
                found += [child, *below(child)]
    return found


def kill_with_all_below(process: int) -> None:
    """A worker has a session of its own. Whoever stands still starts nobody any more."""
    stopped: list[int] = []
    while new := [each for each in [process, *below(process)] if each not in stopped]:
        for each in new:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
        stopped += new
    for each in stopped:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def test_the_second_operator_is_told_and_a_dead_one_is_not_waited_for(
    controller: Controller,
) -> None:
    hold = {"ansible.builtin.pause": {"seconds": WITHIN}}  # which leaves no file when it is killed
    at_work = controller.roll("at", host="broker-2")
    with controller.start(controller.roll("begun", what="rolling"), at_work, hold) as first:
        try:
            wait_until(
                lambda: controller.lock.exists() and controller.holder().get("host") == "broker-2",
                within=WITHIN,
                what="the first is at a host",
            )
            refused = controller.play(controller.roll("begun", what="rollback"))
            assert refused.code == 2
            assert " has been running rolling since " in refused.output
            assert "Z (at broker-2). Only one run" in refused.output
            assert "-e penstock_gate_take_over=true" in refused.output
            assert controller.holder()["what"] == "rolling"
        finally:
            kill_with_all_below(first.pid)
    begun = controller.play(
        {**controller.roll("begun", what="rollback"), "register": "begun"},
        # Where the dead one was is where this one begins.
        {"ansible.builtin.assert": {"that": ["begun.goes_on", "begun.before.host == 'broker-2'"]}},
    )
    assert begun.code == 0, begun.output
    assert controller.holder()["what"] == "rollback"
    assert controller.holder()["left"] == "broker-2"


def test_a_host_that_was_lost_in_the_middle_is_not_passed_by(controller: Controller) -> None:
    """The next run goes on from it; what has ended is forgotten."""
    at = [controller.roll("at", host=host) for host in ("broker-1", "", "broker-2", "broker-3")]
    lost = controller.play(controller.roll("begun", what="rolling"), *at)
    assert lost.code == 2
    assert "broker-2 was left in the middle" in lost.output
    assert controller.holder()["host"] == "broker-2"
    # Nor is that the end of it, where it was the last one.
    ended = controller.play(
        controller.roll("begun", what="rolling"), at[2], controller.roll("ended")
    )
    assert ended.code == 2
    assert "broker-2 was left in the middle" in ended.output
    assert controller.holder()["state"] == "stopped"
    done = controller.play(
        {**controller.roll("begun", what="rolling"), "register": "begun"},
        {"ansible.builtin.assert": {"that": ["begun.goes_on", "begun.before.host == 'broker-2'"]}},
        *(at[2], at[1], controller.roll("ended")),
    )
    assert done.code == 0, done.output
    assert not controller.lock.exists()


def test_another_controllers_run_is_taken_over_only_by_who_says_so(controller: Controller) -> None:
    controller.lock.parent.mkdir()
    there = {"owner": "ada@elsewhere", "what": "rolling", "since": "2026-11-20T07:12:00Z"}
    controller.lock.write_text(json.dumps({**there, "token": "a/1/1", "state": "running"}))
    damaged = controller.directory / "damaged.json"
    damaged.write_text("{")
    refused = controller.play(
        {**controller.roll("begun"), "ignore_errors": True},
        {**controller.roll("begun", path=str(damaged)), "ignore_errors": True},
        # Who does not have it cannot end it either.
        controller.roll("ended"),
    )
    assert refused.code == 0
    assert refused.output.count("...ignoring") == 2
    assert "ada@elsewhere has been running rolling since 2026-11-20T07:12:00Z" in refused.output
    # A file that says nothing is somebody's.
    assert "somebody has been running something" in refused.output
    assert damaged.read_text() == "{"
    assert controller.holder()["owner"] == "ada@elsewhere"
    taken = controller.play(controller.roll("begun", take_over=True))
    assert taken.code == 0, taken.output
    assert controller.holder()["state"] == "running"
    assert controller.holder()["owner"] != "ada@elsewhere"


def test_a_support_bundle_has_no_secret(controller: Controller, tmp_path: Path) -> None:
    config = tmp_path / "etc"
    (config / "secrets").mkdir(parents=True)
    hidden = [made_secret(each) for each in ("password", "token", "url", "json", "below", "file")]
    password, token, url, in_json, below, in_file = hidden
    (config / "secrets" / "zookeeper-secret").write_text(in_file)
    (config / "broker.yaml").write_text(
        f"id: 7\nzookeeper_secret_file: /etc/penstock/secrets/zookeeper-secret\n"
        f"login:\n  password: {password}\n  user: ada\n"
        f'more: {{"api_token": "{token}"}}\nproxy: http://ada:{url}@proxy:3128/\n'
        f'x: {{a: 1, "password": "{in_json}"}}\nzookeeper_secret: |\n  {below}\nlast: kept\n'
    )
    asked = {"penstock.pipeline.support": {"config_dir": str(config)}}
    said = controller.play({**asked, "register": "bundle"}, {"debug": {"var": "bundle.text"}})
    assert said.code == 0, said.output
    for each in hidden:
        assert each not in said.output
    for kept in ("id: 7", "user: ada", "secrets/zookeeper-secret", "last: kept", "proxy:3128"):
        assert kept in said.output
