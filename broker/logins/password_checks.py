"""Hashes passwords outside the event loop: a few at a time, shared fairly among addresses.

Rule 1: one password of each address is hashed at a time, and the addresses take turns. The queue is
        bounded for each address and in total; attempts beyond that are refused unseen.
Rule 2: an address with many failed logins has a pause before its next password is hashed
        (`failures.py`): guessing slows down the guesser, and no other client.
Rule 3: a correct password is remembered for a while, as a digest that is useless outside this
        process: thousands of clients that reconnect cost one hash, and simultaneous ones wait for
        the same hash. When the password is changed, it is forgotten.
"""

import asyncio
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from broker.logins.exchange import refused
from broker.logins.known_users import Checked

_AT_ONCE: Final = 2
_MOST_OF_ADDRESS: Final = 32
_MOST_WAITING: Final = 4_096
_REMEMBERED_S: Final = 300.0
_MOST_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Job:
    checked: Checked
    password: str = field(repr=False)
    key: bytes = field(repr=False)
    answer: asyncio.Future[bool]


class _Address(msgspec.Struct, frozen=True):
    """The queue of an address that waits for its turn, is being served, or pauses."""

    jobs: deque[_Job] = msgspec.field(default_factory=deque)


class PasswordChecks:
    """Checks passwords on threads. `pause` returns the seconds that an address waits between two
    checks. Belongs to the event loop."""

    def __init__(self, pause: Callable[[str], float], loop: asyncio.AbstractEventLoop) -> None:
        self._pause = pause
        self._loop = loop
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="password")
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()  # with expiry times, oldest first
        self._addresses: dict[str, _Address] = {}
        self._turns: deque[str] = deque()
        self._under_way: dict[tuple[str, bytes], asyncio.Future[bool]] = {}
        self._running = 0
        self._closed = False

    async def matches(self, host: str, checked: Checked, password: str) -> bool:
        """Returns whether the password is correct. Raises LoginRefused if the queue is full."""
        credential = checked.credential
        secret = b"\0".join((credential.salt, credential.stored_key, password.encode()))
        key = hmac.digest(self._secret, secret, "sha512")
        if self._right.get(key, 0.0) > self._loop.time():
            return True
        answer = self._under_way.get((host, key))
        if answer is None:
            answer = self._queue(host, _Job(checked, password, key, self._loop.create_future()))
        # Cancelling one attempt must not cancel the others that wait for the same hash.
        return await asyncio.shield(answer)

    def close(self) -> None:
        self._closed = True
        for answer in self._under_way.values():
            answer.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _queue(self, host: str, job: _Job) -> asyncio.Future[bool]:
        address = self._addresses.get(host)
        waiting_count = 0 if address is None else len(address.jobs)
        if (
            self._closed
            or waiting_count >= _MOST_OF_ADDRESS
            or len(self._under_way) >= _MOST_WAITING
        ):
            raise refused("PLAIN", "too many passwords are waiting to be checked", is_ours=True)
        self._under_way[host, job.key] = job.answer
        if address is None:
            self._addresses[host] = _Address(deque((job,)))
            self._take_turn(host)
        else:
            address.jobs.append(job)
        return job.answer

    def _take_turn(self, host: str) -> None:
        if self._addresses[host].jobs:
            self._turns.append(host)
            self._start()
        else:
            del self._addresses[host]

    def _start(self) -> None:
        while self._turns and self._running < _AT_ONCE and not self._closed:
            host = self._turns.popleft()
            job = self._addresses[host].jobs.popleft()
            self._running += 1
            work = self._threads.submit(job.checked.credential.matches, job.password)
            work.add_done_callback(partial(self._tell, host, job))

    def _tell(self, host: str, job: _Job, work: Future[bool]) -> None:
        """Runs on a worker thread."""
        if not work.cancelled():
            with suppress(RuntimeError):  # the loop has ended meanwhile, and no attempt waits
                self._loop.call_soon_threadsafe(self._done, host, job, work.result())

    def _done(self, host: str, job: _Job, matches: bool) -> None:
        self._running -= 1
        del self._under_way[host, job.key]
        is_right = matches and job.checked.exists
        if is_right:
            self._remember(job.key)
        if not job.answer.done():
            job.answer.set_result(is_right)
        self._loop.call_later(0.0 if is_right else self._pause(host), self._take_turn, host)
        self._start()

    def _remember(self, key: bytes) -> None:
        self._right[key] = self._loop.time() + _REMEMBERED_S
        self._right.move_to_end(key)
        if len(self._right) > _MOST_REMEMBERED:
            self._right.popitem(last=False)
