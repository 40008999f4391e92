"""A child that is told what to do: what it answers, how it fails, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.spark_driver import SparkCost, SparkDriver
from harness.server_process import ServerFailed
from harness.waiting import wait_until

_CHILD = """
import os, sys
from bench.driver_commands import obey

def refuse(arguments):
    raise ValueError("no")

def talk(arguments):
    print("noise", flush=True)
    os.system("echo more noise")
    return {"heard": arguments["word"]}

obey({"talk": talk, "refuse": refuse, "leave": lambda _: os._exit(3)})
"""
# A child as large as it was asked for, which ends when it is told to.
_CHILDREN = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "x = bytearray(b'x') * 100_000_000; input()"])
print("over", flush=True)
sys.stdin.read()
"""


def _driver(tmp_path: Path) -> SparkDriver:
    output = tmp_path / "driver.log"
    return SparkDriver([sys.executable, "-c", _CHILD], output=output, environment={})


def test_it_answers_whatever_else_is_written(tmp_path: Path) -> None:
    with _driver(tmp_path) as driver:
        assert driver.ask("talk", {"word": "one"}) == {"heard": "one"}
        with pytest.raises(ServerFailed, match="refuse: ValueError: no"):
            driver.ask("refuse", {})
        assert driver.ask("talk", {"word": "two"}) == {"heard": "two"}
        assert "noise\nmore noise" in driver.last_words(100)
        assert "Traceback" in driver.last_words(100)


def test_what_ended_children_cost_is_counted() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        with SparkCost(parent.pid) as cost:
            wait_until(lambda: cost.peaks.worker > 100e6, within=30, what="it is large")
            parent.stdin.write(b"end\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == b"over\n"
        parent.stdin.close()
    assert cost.peaks.workers == cost.peaks.worker
    assert cost.peaks.everything > cost.peaks.workers
    assert cost.peaks.jvm == 0
    assert cost.cpu_seconds > 0.03
