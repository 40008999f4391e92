"""The sample applications with the topics, formats and schemas of their logs. Pure.

Each application has a topic of its name, with a copy in the offline cluster. Two have a schema of
their own, which is registered before their first line is shipped; events of the third are
`penstock.SyslogLine`.
"""

import glob
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

from penstock.directory.places import SOURCE
from schemas.event_schemas import HEADER, built_in
from schemas.parsing import parse


class Sample(NamedTuple):
    """An application, its topic, and the agent's input for it."""

    name: str
    files: tuple[str, ...]  # patterns, rotated names too
    settings: Mapping[str, Any]  # of the input, beside paths and topic
    typed: bool = False  # has a schema of its own, with the field `number`

    @property
    def module(self) -> str:
        return f"penstock.demo.applications.{self.name}"

    @property
    def copy(self) -> str:
        """The name of the mirror's copy of the topic, which is the one that lands."""
        return f"{SOURCE}.{self.name}"

    @property
    def subject(self) -> str:
        return f"{self.name}-value"


SAMPLES: Final = (
    Sample(
        "shop",
        ("access.log*",),
        {"format": "json", "time": {"field": "time"}},
        typed=True,
    ),
    Sample(
        "payments",
        ("payments*.log",),
        {
            "format": "regex",
            "pattern": (
                r"(?s)^(?P<time>\S+ \S+) (?P<level>[A-Z]+) +\[(?P<thread>[^]]+)\] "
                r"(?P<logger>\S+) - #(?P<number>\d+) (?P<message>.*)"
            ),
            "time": {"field": "time", "format": "%Y-%m-%d %H:%M:%S,%f"},
            "multiline": {"start": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,", "timeout": 1.0},
        },
        typed=True,
    ),
    Sample("system", ("system-*.log",), {"format": "syslog"}),
)
NUMBER_IN_TEXT: Final = r"\(event (\d+)\)$"  # where a message is text only


def schema_text(sample: Sample) -> str:
    """Returns the form of the schema that is registered, with the header."""
    file = files(__package__).joinpath("schemas", f"{sample.subject}.avsc")
    text = file.read_text(encoding="utf-8")
    return parse(text, [built_in(HEADER).text]).resolved_text


def inputs(directory: str) -> Mapping[str, Any]:
    """Returns a file for an agent's `inputs_dir`, in which each application logs to a folder of its
    own name."""
    return {
        "inputs": [
            {
                "paths": [
                    f"{glob.escape(directory)}/{sample.name}/{pattern}" for pattern in sample.files
                ],
                "topic": sample.name,
                **sample.settings,
            }
            for sample in SAMPLES
        ]
    }
