"""One audit, as its parts see it: what it was told, what it has stored, how it stands."""

import time
from dataclasses import dataclass

from audit.config import AuditConfig
from audit.standing import Standing


@dataclass(slots=True)
class Service:
    """Any thread."""

    config: AuditConfig
    standing: Standing

    @property
    def window_millis(self) -> int:
        return self.config.window * 1000


def now_millis() -> int:
    return time.time_ns() // 1_000_000
