"""`--follow [TOPIC=]GLOB`: files that the agent follows, as one file of its `inputs_dir`.

`{dir}/inputs.d/follow.yaml` stays for the next start, until other files are asked for; other files
of that folder are the user's and never touched. What `penstock up` writes itself is never followed:
an agent that ships its own log would have something new to say of every line.
"""

import glob
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from agent.config_inputs import Input
from agent.files.patterns import split
from penstock.up.errors import WrongFollow
from penstock.up.places import Places
from penstock.up.replacing import replace
from penstock.up.settings import literal

DEFAULT_TOPIC: Final = "logs"
FILE: Final = "follow.yaml"
HEADER: Final = """\
# Written by `penstock up --follow`, and again at the next start with --follow.
# Inputs of your own go into other files beside this one: they are taken while it runs.
"""
_TOPIC: Final = re.compile(r"([^/=]*)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class Follow(NamedTuple):
    """Files to be followed, from their beginning, as plain lines."""

    pattern: str  # absolute
    topic: str = DEFAULT_TOPIC

    def has_files(self) -> bool:
        """Whether there is one now; taken for granted of `**`, as a whole disk may be below it."""
        if "**" in self.pattern:
            return True
        try:
            return any(Path("/").glob(self.pattern[1:]))
        except OSError:
            return False


def parse_follow(text: str, working_directory: Path) -> Follow:
    """Raises WrongFollow. `./a=b.log` is a file, `a=b.log` is the file b.log for the topic a."""
    found = _TOPIC.fullmatch(text)
    topic, pattern = found.groups() if found else (DEFAULT_TOPIC, text)
    if not pattern or "\0" in pattern:
        raise WrongFollow(f"{text!r} names no file: '/var/log/*.log' or 'TOPIC=/var/log/*.log'")
    if not _NAME.fullmatch(topic):
        raise WrongFollow(
            f"{text}: no topic can be called {topic!r}: letters, digits, '.', '_' and '-' can be "
            f"in its name. If a file is called so, say './{text}'"
        )
    if topic.startswith("_"):
        raise WrongFollow(f"{text}: topics that begin with _ are Penstock's own")
    try:
        asked = Path(pattern).expanduser()
        # What is not a pattern is no pattern even if its name looks like one.
        path = Path(glob.escape(str(working_directory))) / asked
        if pattern.endswith("/") or (working_directory / asked).is_dir():
            path = path / "*"
        meant = f"/{str(path).lstrip('/')}"  # two slashes at the beginning would stay two
        Input(paths=(meant,), topic=topic)
    except (OSError, RuntimeError, ValueError) as error:
        raise WrongFollow(f"{text}: {error}") from None
    return Follow(meant, topic)


def follow(places: Places, follows: Sequence[Follow]) -> None:
    """From the next start on, these and no others. Raises OSError."""
    places.inputs.mkdir(parents=True, exist_ok=True)
    replace(places.inputs / FILE, document(places, follows))


def document(places: Places, follows: Sequence[Follow]) -> str:
    """The file's text: one input for each topic."""
    topics = dict.fromkeys(each.topic for each in follows)
    ours = [f"{glob.escape(each)}/**" for each in _names_of(places.directory, follows)]
    inputs: list[dict[str, Any]] = [
        {
            "name": f"follow-{topic}",
            "topic": topic,
            "paths": [literal(each.pattern) for each in follows if each.topic == topic],
            "exclude": [literal(each) for each in ours],
        }
        for topic in topics
    ]
    return HEADER + yaml.safe_dump({"inputs": inputs}, sort_keys=False, allow_unicode=True)


def _names_of(directory: Path, follows: Iterable[Follow]) -> list[str]:
    """All names under which these patterns may come upon it: links lead to it, too."""
    real = directory.resolve()
    names = {directory, real}
    for each in follows:
        root = Path(split(each.pattern)[0])
        with suppress(OSError, RuntimeError):  # links that lead to each other lead nowhere
            begin = root.resolve()
            if begin.is_relative_to(real):
                names.add(root)
            elif real.is_relative_to(begin):
                names.add(root / real.relative_to(begin))
    return sorted(map(str, names))
