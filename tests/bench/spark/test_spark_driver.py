"""A child that is told what to do: what it answers, how it fails, and what it costs."""

import sys
from pathlib import Path

import pytest

from bench.spark.spark_driver import SparkDriver
from harness.processes.server_process import ServerFailed

_CHILD = """
import os, sys
from bench.spark.driver_commands import serve

def refuse(arguments):
    raise ValueError("no")

def talk(arguments):
    print("noise", flush=True)
    os.system("echo more noise")
    return {"heard": arguments["word"]}

serve({"talk": talk, "refuse": refuse, "leave": lambda _: os._exit(3)})
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
