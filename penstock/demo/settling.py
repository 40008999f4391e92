"""Waiting until what the applications wrote has its verdict, or will not have a better one."""

import time
from typing import Final

from penstock.demo.ledger_said import Span, asked, only_faults, waits_for
from penstock.demo.samples import SAMPLES
from penstock.demo.watch import Watch
from penstock.failures import Failed

_SETTLE_SECONDS: Final = 420.0  # Spark begins slowly on a machine that is busy
_FAULTY_SECONDS: Final = 15.0  # after which a fault is believed
_ASK_SECONDS: Final = 1.0


def settle(watch: Watch, asked_about: Span) -> str:
    """Waits for the verdict; what it is still waiting for, if that takes too long."""
    audit = _Audit(watch.pipeline.addresses.audit, asked_about)
    if watch.until(audit.is_done, _SETTLE_SECONDS):
        return ""
    return f"there is no verdict {_SETTLE_SECONDS:.0f} s after the last line: {audit.waits_for}"


class _Audit:
    """Asked again and again."""

    def __init__(self, url: str, asked_about: Span) -> None:
        self._url = url
        self._asked_about = asked_about
        self._next = 0.0
        self._faulty_since: float | None = None
        self.waits_for = ""

    def is_done(self) -> bool:
        """Whether it is worth no more waiting."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _ASK_SECONDS
        topics = [sample.name for sample in SAMPLES]
        try:
            report = asked(self._url, self._asked_about)
        except Failed as error:
            self.waits_for = error.message
            return False
        self.waits_for = waits_for(report, topics)
        if not self.waits_for:
            return True
        if not only_faults(report, topics):
            self._faulty_since = None
        elif self._faulty_since is None:
            self._faulty_since = now
        return self._faulty_since is not None and now - self._faulty_since >= _FAULTY_SECONDS
