"""A line is what the operator's regular expression finds in it: a field for each named group.

Values are text; a group that took no part is a field that is missing.
"""

import re
from collections.abc import Callable
from typing import Any

from agent.events.faults import Fault
from agent.events.patterns import MOST_CHARACTERS


def by_named_groups(pattern: str) -> Callable[[bytes], dict[str, Any]]:
    search = re.compile(pattern).search

    def fields(line: bytes) -> dict[str, Any]:
        text = line.decode()
        if len(text) > MOST_CHARACTERS:
            raise Fault("format", f"{len(text)} characters are too many for a pattern")
        match = search(text)
        if match is None:
            raise Fault("format", "`pattern` is not found in it")
        return {name: value for name, value in match.groupdict().items() if value is not None}

    return fields
