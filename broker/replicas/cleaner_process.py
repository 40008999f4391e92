"""Runs cleaning in a separate process, to keep the event loop free.

A thread would do the same work, but hold the interpreter lock while it decodes: every system call
of the event loop would then wait up to five milliseconds to get it back.

The child gets its job through one pipe and answers through another. It runs at low priority and
ends as soon as its parent ends or closes the pipe, so there are never two that clean the same log.
It may leave unfinished `.cleaned` files, which the next cleaning or recovery removes.
"""

import asyncio
import os
import pickle
import sys
import threading

from broker.storage.cleaning.cleaner import Cleaning, CleaningJob, clean
from broker.storage.errors import StorageError

_NICE = 10


async def clean_in_process(job: CleaningJob) -> Cleaning:
    """Cleans like `clean`, with the same errors; cancelling it ends the child process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # do not import modules from the working directory
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps(job))
        answer = await process.stdout.read()
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process.stdin.close()
    if not answer:
        raise ChildProcessError(f"cleaning {job.directory} ended with status {status}")
    outcome = pickle.loads(answer)  # noqa: S301 — our own child's
    if isinstance(outcome, Exception):
        raise outcome
    assert isinstance(outcome, Cleaning)
    return outcome


def main() -> None:
    """Reads one job from standard input, and writes its outcome to standard output."""
    os.nice(_NICE)
    job = pickle.load(sys.stdin.buffer)  # noqa: S301 — our own parent's
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        outcome: Cleaning | Exception = clean(job)
    except (StorageError, OSError) as error:
        outcome = error
    sys.stdout.buffer.write(pickle.dumps(outcome))


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing follows the job: this returns when the pipe is closed
    os._exit(1)


if __name__ == "__main__":
    main()
