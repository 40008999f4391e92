"""The three streams, as commands may rely on them: there, and able to take any text.

Whoever started this may have closed one of them; the first file or socket that is opened would take
its place. And a terminal may have an alphabet in which a verdict's mark is not.
"""

import io
import os
import sys


def open_streams() -> None:
    """Puts what is missing in order. What a stream cannot show is escaped in it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def give_up_stdout() -> None:
    """What is still buffered would fail again when Python flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
