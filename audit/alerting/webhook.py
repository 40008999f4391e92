"""Posting to a webhook, on a thread of its own: nothing waits for whoever listens there.

One request at a time. What is not answered with a status of 200 to 299 in time is sent again after
a pause that grows; unless it is refused for what is in it, some times over: then its messages are
sent one by one, and those that are refused even so are dropped, so that they keep no other back.
What was sent is said by `sent`; what is under way when the process is killed
is sent once more after the next start, with the same ids.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from audit.alerting.errors import NotTold, Refused
from audit.alerting.messages import AlertMessage, Post
from audit.alerting.senders import post_json

_PATIENCE_S: Final = 10.0  # with one request
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
_ENDS_WITHIN_S: Final = 1.0
_MOST_REFUSALS: Final = 10  # of the same request: whoever listens may be about to be mended

log = logging.getLogger(__name__)


class Webhook:
    """`offer` what is to be told, and look for what was `sent`."""

    def __init__(self, url: str, *, first_pause: float = _FIRST_PAUSE_S) -> None:
        self._url = url
        self._first_pause = first_pause
        self._guard = threading.Condition()
        self._messages: Sequence[AlertMessage] = ()
        self._sent: Sequence[AlertMessage] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self.failed = 0  # since the start

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._guard:
            self._guard.notify_all()
        self._thread.join(_ENDS_WITHIN_S)

    def offer(self, messages: Sequence[AlertMessage]) -> bool:
        """Whether they are taken: nothing else is under way."""
        with self._guard:
            if self._messages or self._sent or not messages:
                return False
            self._messages = messages
            self._guard.notify_all()
            return True

    @property
    def is_busy(self) -> bool:
        """Whether something is under way: nothing else is taken before that."""
        return bool(self._messages)

    def sent(self) -> Sequence[AlertMessage]:
        """What has been taken since this was last asked."""
        with self._guard:
            sent, self._sent = self._sent, ()
            return sent

    def _run(self) -> None:
        while messages := self._next():
            if not self._told(messages, _MOST_REFUSALS):
                for each in messages:
                    if not self._told((each,), 1):
                        log.error("alert refused, dropped id=%s kind=%s", each.id, each.kind)
            if not self._stopping.is_set():
                with self._guard:
                    self._messages, self._sent = (), messages

    def _told(self, messages: Sequence[AlertMessage], refusals: int) -> bool:
        """Tries until it is taken or all is over; False if it was refused so many times."""
        pause = self._first_pause
        while not self._stopping.is_set():
            try:
                post(self._url, messages)
            except NotTold as error:
                self.failed += 1
                refusals -= isinstance(error, Refused)
                if not refusals:
                    return False
                log.warning("webhook failed, trying again error=%r seconds=%g", str(error), pause)
                self._stopping.wait(pause)
                pause = min(_LONGEST_PAUSE_S, pause * 2)
            else:
                break
        return True

    def _next(self) -> Sequence[AlertMessage]:
        """What was offered; nothing when all is over."""
        with self._guard:
            while not self._messages and not self._stopping.is_set():
                self._guard.wait()
            return () if self._stopping.is_set() else self._messages


def post(url: str, messages: Sequence[AlertMessage], *, patience: float = _PATIENCE_S) -> None:
    """Raises NotTold, which does not say the URL: it may be a secret."""
    try:
        body = msgspec.json.encode(Post(alerts=messages))
    except UnicodeEncodeError as error:
        raise NotTold(f"what is to be told is no text: {error.reason}") from None
    post_json(url, body, patience=patience)
