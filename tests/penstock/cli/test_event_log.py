"""One line an event, whatever a peer or an exception puts into it."""

import json
import subprocess
import sys

from tests.penstock.running import REPOSITORY

PROGRAM = """
import logging, sys
from penstock.cli.event_log import log_to_stderr
log_to_stderr(sys.argv[1])
log = logging.getLogger("broker.server")
log.info("connection refused client_id=%s", "evil\\n2026 INFO all is well\\x1b[2J")
log.debug("not shown")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("that was a bug")
"""


def said(log_format: str) -> list[str]:
    run = [sys.executable, "-c", PROGRAM, log_format]
    ended = subprocess.run(run, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    return ended.stderr.splitlines()


def test_text() -> None:
    refused, bug = said("text")
    time, rest = refused.split(" ", 1)
    assert len(time) == len("2026-11-20T07:00:00.123Z")
    assert time.endswith("Z")
    wanted = r"connection refused client_id=evil\n2026 INFO all is well\x1b[2J"
    assert rest == f"INFO broker.server {wanted}"
    assert "ERROR broker.server that was a bug traceback=Traceback (most recent" in bug
    assert bug.endswith("ZeroDivisionError: division by zero")


def test_json() -> None:
    refused, bug = map(json.loads, said("json"))
    assert refused["level"] == "INFO"
    assert refused["logger"] == "broker.server"
    assert refused["event"] == "connection refused client_id=evil\n2026 INFO all is well\x1b[2J"
    assert bug["traceback"].endswith("ZeroDivisionError: division by zero")
