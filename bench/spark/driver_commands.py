"""The protocol of a Spark driver: a line of JSON per command on stdin, and per answer on stdout.

Interpreters with few packages run it, so it imports only the standard library.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Command = Callable[[Json], Json]


def serve(commands: Mapping[str, Command]) -> None:
    """Runs commands until stdin ends. Other output to stdout goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = commands[name](arguments)
        except Exception as error:  # noqa: BLE001 -- any error is reported to the other side
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
