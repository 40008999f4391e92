"""Runs journalctl: children that read the journal to its end, follow it, or ask for its last entry.

`--follow` shows entries of the current boot only, except with `--merge`. So the journal of the host
is first read to its end, and then followed; a folder of journals is followed with `--merge`.

The child is not trusted to be complete: `numbering` proves that no entry is missing, and the last
entry shows up to when the journal was read. It ends with its standard output, so a killed agent
leaves none behind.
"""

import os
import select
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence, Set
from typing import Final

from agent.configuration.system_journal import SystemJournal
from agent.errors import JournalctlError, NoJournalFiles
from agent.system_journal.export_format import Entry, ExportParser
from agent.system_journal.selection import ALWAYS_WRITTEN
from ground.printable import one_line

_PROGRAM: Final = "journalctl"
_READ_BYTES: Final = 256 * 1024
_MOST_SAID: Final = 8  # lines of standard error
_MOST_LINE: Final = 500
_END_SECONDS: Final = 2.0
_ASK_SECONDS: Final = 60.0
_ASKED_VALUE_BYTES: Final = 4096
_NO_ACCESS: Final = ("You are currently not seeing messages from", "insufficient permissions")
_IGNORED: Final = "ignoring file"
_NO_FILES: Final = "No journal files were found"
_ADVICE: Final = (
    "the agent may not read the whole journal: add its user to the group systemd-journal"
)
_ENVIRONMENT: Final = {"LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_LOG_LEVEL": "info"}


def _command(journal: SystemJournal, fields: Set[bytes], options: Sequence[str]) -> list[str]:
    names = ",".join(sorted(name.decode() for name in fields - ALWAYS_WRITTEN))
    output = ["--output=export", f"--output-fields={names}", "--no-pager"]
    return [_PROGRAM, *output, *_place(journal), *options]


def _place(journal: SystemJournal) -> list[str]:
    if journal.directory:
        return [f"--directory={journal.directory}"]
    return [f"--namespace={journal.namespace}"] if journal.namespace else []


def check_access(journal: SystemJournal) -> None:
    """Checks that there are journal files, and that all of them may be read. Raises
    NoJournalFiles, JournalctlError. journalctl says so only if its output is for persons."""
    _, said = _run([_PROGRAM, "--lines=1", "--no-pager", *_place(journal)])
    if any(words in text for text in said for words in _NO_ACCESS):
        raise JournalctlError(_ADVICE)
    if any(text.startswith(_NO_FILES) for text in said):
        raise NoJournalFiles


def last_entry(journal: SystemJournal) -> Entry | None:
    """The journal's last entry; None if it is empty. Raises JournalctlError."""
    parser = ExportParser(frozenset(), _ASKED_VALUE_BYTES)
    output, _ = _run(_command(journal, frozenset({b"PRIORITY"}), ["--lines=1"]))
    entries = list(parser.feed(output))
    return entries[-1] if entries else None


def _run(command: Sequence[str]) -> tuple[bytes, Sequence[str]]:
    """Runs a command to its end. Returns its output and messages. Raises JournalctlError."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=os.environ | _ENVIRONMENT,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JournalctlError(_cannot_run(error)) from None
    said = [*_lines_of(result.stderr)]
    if result.returncode and not any(words in text for text in said for words in _NO_ACCESS):
        raise JournalctlError(_ended(result.returncode, said))
    return result.stdout, said


class Reading:
    """A child that writes entries from some position on, and new ones if it `follows`. Belongs to
    one thread. Raises JournalctlError if it fails, or may not read everything."""

    def __init__(
        self,
        journal: SystemJournal,
        fields: Set[bytes],
        options: Sequence[str],
        *,
        follows: bool,
    ) -> None:
        """`options` name the place where it begins."""
        self.is_over = False
        self._follows = follows
        mode = ["--follow", "--no-tail"] if follows else []
        merge = ["--merge"] if journal.directory else []
        try:
            self._child = subprocess.Popen(
                _command(journal, fields, [*mode, *merge, *options]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | _ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            raise JournalctlError(_cannot_run(error)) from None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._output, self._errors = self._child.stdout.fileno(), self._child.stderr.fileno()
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._poll.register(self._errors, select.POLLIN)
        self._unfinished = b""  # line of standard error
        self._said: deque[str] = deque(maxlen=_MOST_SAID)
        self.news: list[str] = []  # what it said since the caller emptied this

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ignored(self) -> str:
        """What it said about files that it did not read, since they are damaged."""
        return "; ".join(text for text in self._said if _IGNORED in text)

    def read(self, seconds: float) -> bytes:
        """Returns what the child has written; empty if it writes nothing for this long."""
        data = b""
        for fd, _ in self._poll.poll(seconds * 1000):
            piece = os.read(fd, _READ_BYTES)
            if fd == self._errors:
                self._listen(piece)
            elif piece:
                data = piece
            else:
                self._end()
        return data

    def close(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def _listen(self, piece: bytes) -> None:
        if not piece:
            self._poll.unregister(self._errors)
        *lines, self._unfinished = (self._unfinished + piece).split(b"\n")
        self._unfinished = self._unfinished[:_MOST_LINE]
        texts = [*_lines_of(b"\n".join(lines))]
        self._said += texts
        self.news += texts

    def _end(self) -> None:
        try:
            code = self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise JournalctlError("journalctl closed its output") from None
        while piece := os.read(self._errors, _READ_BYTES):
            self._listen(piece)
        self.is_over = not code and not self._follows
        if not self.is_over:
            raise JournalctlError(_ended(code, self._said))


def _lines_of(errors: bytes) -> Iterator[str]:
    for line in errors.splitlines()[-_MOST_SAID:]:
        if text := line[:_MOST_LINE].decode("utf-8", "replace").strip():
            yield one_line(text)


def _ended(code: int, said: Sequence[str]) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"journalctl {how}" + (f": {'; '.join(said)}" if said else "")


def _cannot_run(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot run journalctl: {reason}"
