"""`--follow [TOPIC=]GLOB`: files that the agent follows, as one file of its `inputs_dir`.

`{dir}/inputs.d/follow.yaml` stays for the next start, until other files are asked for; other files
of that folder are the user's and never touched. What `penstock up` writes itself is never followed:
an agent that ships its own log would have something new to say of every line.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from agent.config_inputs import Input
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
_TOPIC: Final = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)


class Follow(NamedTuple):
    """Files to be followed, from their beginning, as plain lines."""

    pattern: str  # absolute
    topic: str = DEFAULT_TOPIC

    def has_files(self) -> bool:
        """Whether there is one now; taken for granted of `**`, as a whole disk may be below it."""
        return "**" in self.pattern or any(Path("/").glob(self.pattern[1:]))


def parse_follow(text: str, working_directory: Path) -> Follow:
    """Raises WrongFollow. `./a=b.log` is a file, `a=b.log` is the file b.log for the topic a."""
    found = _TOPIC.fullmatch(text)
    topic, pattern = found.groups() if found else (DEFAULT_TOPIC, text)
    if not pattern or "\0" in pattern:
        raise WrongFollow(f"{text!r} names no file: '/var/log/*.log' or 'TOPIC=/var/log/*.log'")
    if topic.startswith("_"):
        raise WrongFollow(f"{text}: topics that begin with _ are Penstock's own")
    try:
        path = working_directory / Path(pattern).expanduser()
        if pattern.endswith("/") or path.is_dir():
            path = path / "*"
        Input(paths=(str(path),), topic=topic)
    except (OSError, RuntimeError, ValueError) as error:
        raise WrongFollow(f"{text}: {error}") from None
    return Follow(str(path), topic)


def follow(places: Places, follows: Sequence[Follow]) -> None:
    """From the next start on, these and no others. Raises OSError."""
    places.inputs.mkdir(parents=True, exist_ok=True)
    replace(places.inputs / FILE, document(places, follows))


def document(places: Places, follows: Sequence[Follow]) -> str:
    """The file's text: one input for each topic."""
    topics = dict.fromkeys(each.topic for each in follows)
    inputs: list[dict[str, Any]] = [
        {
            "name": f"follow-{topic}",
            "topic": topic,
            "paths": [literal(each.pattern) for each in follows if each.topic == topic],
            "exclude": [literal(f"{places.directory}/**")],
        }
        for topic in topics
    ]
    return HEADER + yaml.safe_dump({"inputs": inputs}, sort_keys=False, allow_unicode=True)
