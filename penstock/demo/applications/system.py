"""A machine's system log: messages in the formats of RFC 5424 and RFC 3164, in turn.

<30>1 2026-11-20T07:12:00.123Z web-1 sshd 811 - - session opened for mira (event 18)
<30>Nov 20 07:12:00 web-1 cron[322]: run-parts /etc/cron.hourly (event 19)
"""

from datetime import datetime
from random import Random
from typing import Final

from penstock.demo.applications.log_writer import Application, NewNames, main

_MESSAGES: Final = (
    ("sshd", "session opened for mira"),
    ("sshd", "failed password for root from 198.51.100.7"),
    ("cron", "run-parts /etc/cron.hourly"),
    ("systemd", "started nightly backup"),
    ("kernel", "eth0: link is up at 10 Gbit/s"),
    ("dhclient", "lease of 192.0.2.17 renewed"),
)


def event(number: int, at: datetime, chance: Random) -> str:
    program, message = chance.choice(_MESSAGES)
    priority = chance.choice((28, 30, 37, 86))
    pid = chance.randrange(100, 9_999)
    text = f"{message} (event {number})\n"
    if number % 2:
        return f"<{priority}>{at:%b} {at.day:2} {at:%H:%M:%S} web-1 {program}[{pid}]: {text}"
    milliseconds = f"{at.microsecond // 1000:03}"
    return f"<{priority}>1 {at:%Y-%m-%dT%H:%M:%S}.{milliseconds}Z web-1 {program} {pid} - - {text}"


def pace(seconds: float) -> float:
    """Returns the current rate of messages: a trickle, and a flood for one second in ten."""
    return 1_500 if seconds % 10 > 9 else 120


SYSTEM: Final = Application("system", NewNames("system"), 192 * 1024, pace, event)

if __name__ == "__main__":
    main(SYSTEM)
