"""The three streams, as commands may rely on them: there, and able to take any text.

Whoever started this may have closed one of them; the first file or socket that is opened would take
its place. And a terminal may have an alphabet in which a verdict's mark is not.
"""

import io
import os
import sys
from typing import TextIO


def open_streams() -> None:
    """Puts what is missing in order. What a stream cannot show is escaped in it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def give_up(stream: TextIO) -> None:
    """Nobody reads it, or it takes no more: from here on it leads nowhere.

    What is still buffered would fail again with the next line, and when Python flushes it at exit.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
