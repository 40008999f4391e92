"""`python -m tests.incidents`: plays all incidents, and writes docs/incidents.md with its pictures.

`python -m tests.incidents NAME …` plays some; the others are on the page as they were played last.
Three are played at a time, each in a process of its own.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from tests.incidents import page
from tests.incidents.incidents import INCIDENTS
from tests.incidents.playing import play
from tests.incidents.site import Taken

_AT_A_TIME: Final = 3
_KEPT: Final = Path(__file__).resolve().parents[2] / ".cache" / "incidents"
_PLAY: Final = "--play"


def main(arguments: list[str]) -> int:
    if arguments[:1] == [_PLAY]:
        taken = play(arguments[1], page.DOCS / page.PICTURES)
        _kept(taken.name).write_bytes(msgspec.json.encode(taken))
        print(f"a sign after {taken.first_sign:.0f} s, green after {taken.green:.0f} s")
        return 0
    if unknown := set(arguments) - INCIDENTS.keys():
        print(f"no incident {', '.join(unknown)}; there are: {', '.join(INCIDENTS)}")
        return 2
    names = arguments or list(INCIDENTS)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        played = list(pool.map(_played, names))
    missing = [name for name in INCIDENTS if not _kept(name).exists()]
    if missing:
        print(f"the page needs these, too: {', '.join(missing)}")
    else:
        kept = (_kept(name).read_bytes() for name in INCIDENTS)
        page.write([msgspec.json.decode(taken, type=Taken) for taken in kept])
    return 0 if all(played) else 1


def _kept(name: str) -> Path:
    """What was taken when it was played last."""
    return _KEPT / f"{name}.json"


def _played(name: str) -> bool:
    """Whether it went as it should."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.incidents", _PLAY, name]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(
        f"✗ {name}\n{ended.stderr}" if ended.returncode else f"✓ {name}: {ended.stdout.rstrip()}",
        flush=True,
    )
    return not ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
