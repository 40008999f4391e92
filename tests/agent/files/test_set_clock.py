"""The clock of a host is put right, 40 minutes ahead or back: nothing is said that is not true."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import pytest

from tests.agent.files.scenarios import assert_said
from tests.elsewhen.clock import Clock, compile_clock, environment

pytestmark = [
    pytest.mark.long,
    pytest.mark.not_quick("starts a process"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)"),
]

ROOT = Path(__file__).resolve().parents[3]
BEGIN = "write app.log one; write other.txt x; touch app.log.9; rest; "
SOON = "; rest; turn 6; rest"
WAS_SET = "*; the clock was set *"
BUSY = "0 brief .: no look for *"  # in the same process, on a busy machine
# How long what is said was, in tens of minutes: nothing is long.
SAID: Mapping[str, tuple[str, tuple[str, ...]]] = {
    f"{BEGIN}CLOCK; mv app.log app.log.1; write app.log two{SOON}": ("one two", ()),
    f"{BEGIN}stop; CLOCK; start{SOON}": ("one", (f"0 unchanged .: {WAS_SET}",) * 2),
    f"{BEGIN}CLOCK; stop; start{SOON}": ("one", (f"0 unchanged .: {WAS_SET}",) * 2),
    f"{BEGIN}CLOCK{SOON}; stop; start{SOON}; stop; start{SOON}": (
        "one",
        ("0 unchanged .: no agent followed these files; no name came or went",) * 2,
    ),
    f"{BEGIN}CLOCK{SOON}; stop; mv app.log app.log.1; write app.log two; start{SOON}": (
        "one two",
        (
            "0 changed .: no agent followed these files; renamed: app.log to app.log.1; "
            "new: app.log; whether *",
        ),
    ),
    f"{BEGIN}stop; mv app.log app.log.1; CLOCK; write app.log two; start{SOON}": (
        "one two",
        (f"0 changed .: {WAS_SET}s; renamed: app.log to app.log.1; new: app.log; whether *",) * 2,
    ),
    f"{BEGIN}stop; write app.log.9 two; CLOCK; start{SOON}": (
        "one two",
        (f"0 [bc]* .: {WAS_SET} may have been emptied: app.log.9",) * 2,
    ),
    f"{BEGIN}stop; CLOCK; write app.log.9 two; start{SOON}": (
        "one two",
        (f"0 [bc]* .: {WAS_SET} may have been emptied: app.log.9",) * 2,
    ),
    f"keep; {BEGIN}stop; write app.log.2 x; rm app.log.2; CLOCK; start{SOON}": (
        "one",
        (f"0 changed .: came and went between two looks: app.log.2{WAS_SET[1:]}",) * 2,
    ),
    f"keep; {BEGIN}CLOCK{SOON}; stop; start{SOON}": ("one", ()),
    f"{BEGIN}write app.log.2 x; rm app.log.2; CLOCK{SOON}": (
        "one",
        (f"0 changed .: came and went between two looks: app.log.2{WAS_SET[1:]}",) * 2,
    ),
}


@pytest.mark.parametrize("seconds", [2400, -2400])
def test_a_clock_is_set(seconds: int, tmp_path: Path) -> None:
    library, clock = compile_clock(tmp_path), Clock(tmp_path / "clock")
    clock.be_ahead(0)
    scripts = [script.replace("CLOCK", f"clock {seconds}") for script in SAID]
    played = subprocess.run(
        [sys.executable, "-m", "tests.agent.files.set_clock"],
        input=msgspec.json.encode(scripts),
        env={**os.environ, **environment(library, clock, os.environ)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    results = msgspec.json.decode(played.stdout, type=list[tuple[list[str], list[str]]])
    for (said, read), (lines, patterns) in zip(results, SAID.values(), strict=True):
        assert sorted(read) == lines.split()
        assert_said([each for each in said if not fnmatchcase(each, BUSY)], patterns)
