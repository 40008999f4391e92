"""A whole site on which one program hangs for many loads: two messages, whatever it holds up."""

import os
import signal
import time
from pathlib import Path

import pytest

from harness.processes.frozen_processes import freeze
from harness.processes.waiting import wait_until
from tests.incidents.site import PATIENCE, Site

pytestmark = pytest.mark.long
HANGS_S = 170  # seventeen loads; topics are late by then, and the loader is away


@pytest.mark.parametrize("name", ["registry", "broker"])
def test_a_program_that_hangs_is_two_messages(tmp_path: Path, name: str) -> None:
    with Site(tmp_path / "site") as site:
        for host, topic in (("web-1", "shop"), ("web-2", "orders")):
            site.host(host, topic)
        site.settle()
        pid = site.up.programs()[name]
        freeze(pid)
        time.sleep(HANGS_S)
        os.kill(pid, signal.SIGCONT)
        wait_until(
            lambda: len(site.inbox.posts) > 1 and site.green() and not site.waiting(),
            within=PATIENCE,
            what="it is over, and nothing waits to be told",
        )
        told = [(each["status"], each["kind"]) for each in site.inbox.posts]
        assert told == [("raised", "away"), ("resolved", "away")], site.inbox.posts
