"""One bash for the blocks of one page, in their order, as a reader's terminal would be.

What a block exports, or where it changes to, holds for the next one. Everything that a block
started is ended with the bash: it has a process group of its own.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Self

from harness.processes.crowding import Patience
from tests.docs.output import missing_line
from tests.docs.pages import Block

SECONDS_A_BLOCK = 240.0  # until the next load is done, on a busy machine
_EVERY = 0.5
_LAST_CHARACTERS = 4_000


def follow(
    shell: "Shell",
    folder: Path,
    blocks: Sequence[Block],
    is_run: Callable[[Block], bool],
    aimed: Callable[[str], str],
) -> None:
    """Types a page's blocks in their order, and holds what it shows against what they print."""
    printed = ""
    for block, following in zip_longest(blocks, blocks[1:]):
        text = aimed(block.text)
        if block.is_output:
            missing = missing_line(text, printed)
            assert missing is None, f"{block.where}: not printed: {missing}\n{printed}"
        elif block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(text, encoding="utf-8")
        elif is_run(block):
            if block.language == "python":
                (folder / "example.py").write_text(text, encoding="utf-8")
                text = f"{sys.executable} {folder}/example.py\n"
            wanted = aimed(following.text) if following and following.is_output else ""
            try:
                printed = shell.run(
                    text, exit_code=block.exit_code, tried_again=block.is_tried_again, wanted=wanted
                )
            except AssertionError as error:
                raise AssertionError(f"{block.where}: {error}") from None


class BlockFailed(AssertionError):
    """A block did not end as its page says."""


class Shell:
    """A bash in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._scratch = folder / ".blocks"
        self._scratch.mkdir()
        self._output = self._scratch / "output"
        self._status, self._told = os.pipe()
        with self._output.open("wb") as output:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(self._told,),
                start_new_session=True,
                text=True,
            )
        os.close(self._told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        os.close(self._status)

    def run(
        self,
        text: str,
        *,
        exit_code: int = 0,
        tried_again: bool = False,
        wanted: str = "",
        seconds: float = SECONDS_A_BLOCK,
    ) -> str:
        """What it printed. Each of its commands must succeed; with another exit code, the last
        one has it. What is tried again is so until it has printed what is wanted, too."""
        patience = Patience(seconds)
        while True:
            before = self._output.stat().st_size
            code = self._once(text, stops=exit_code == 0, patience=patience)
            said = self._said(before)
            is_over = not tried_again or patience.is_over()
            if code != exit_code and is_over:
                raise BlockFailed(f"exit code {code}, not {exit_code}:\n{text}\n{said}")
            if code == exit_code and (is_over or missing_line(wanted, said) is None):
                return said
            time.sleep(_EVERY)

    def _once(self, text: str, *, stops: bool, patience: Patience) -> int:
        """The block's exit code. With `stops`, that of its first command that fails."""
        script = self._scratch / "block.sh"
        # What is sourced can be left early, and what it has set stays.
        body = f"trap 'return $?' ERR\n{text}" if stops else text
        script.write_text(body, encoding="utf-8")
        assert self._bash.stdin is not None
        line = f". {script} </dev/null; echo $? >&{self._told}; trap - ERR\n"
        self._bash.stdin.write(line)
        self._bash.stdin.flush()
        return self._told_code(text, patience)

    def _told_code(self, text: str, patience: Patience) -> int:
        said = b""
        while not said.endswith(b"\n"):
            readable, _, _ = select.select([self._status], [], [], 1.0)
            if readable:
                said += os.read(self._status, 16)
            if self._bash.poll() is not None or patience.is_over():
                raise BlockFailed(f"it did not end:\n{text}\n{self._said(0)}")
        return int(said)

    def _said(self, since: int) -> str:
        with self._output.open("rb") as output:
            output.seek(since)
            return output.read().decode(errors="replace")[-_LAST_CHARACTERS:]
