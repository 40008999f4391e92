"""What a driver of Spark is told on stdin, and answers on stdout: a line of JSON each.

Run by pythons in which little is installed: it imports nothing but the standard library.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Command = Callable[[Json], Json]


def obey(commands: Mapping[str, Command]) -> None:
    """Does what it is told until stdin ends. Whatever else is written to stdout goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = commands[name](arguments)
        except Exception as error:  # noqa: BLE001 -- whatever it is: the other side must hear of it
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
