"""A payment service, with a log like a Java program's: some errors have a stack trace.

2026-11-20 07:12:00,123 INFO  [worker-3] shop.payments.Ledger - #17 booked 12.50 EUR of order 4
2026-11-20 07:12:00,125 ERROR [worker-1] shop.payments.Gateway - #18 order 5 was not booked
java.net.SocketTimeoutException: Read timed out
    at java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)
"""

from datetime import datetime
from random import Random
from typing import Final

from penstock.demo.applications.log_writer import Application, Numbered, main

_FRAMES: Final = (
    "java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:278)",
    "java.base/java.net.Socket$SocketInputStream.read(Socket.java:1108)",
    "shop.payments.Gateway.authorise(Gateway.java:87)",
    "shop.payments.Gateway.book(Gateway.java:52)",
    "shop.payments.Ledger.settle(Ledger.java:140)",
    "java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)",
    "java.base/java.lang.Thread.run(Thread.java:1583)",
)


def event(number: int, at: datetime, chance: Random) -> str:
    time = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
    worker = f"worker-{chance.randrange(1, 9)}"
    order = chance.randrange(10_000, 99_999)
    if chance.random() < 0.03:
        line = f"{time} ERROR [{worker}] shop.payments.Gateway - #{number} order {order} not booked"
        return "\n".join([line, *_stack_trace(chance)]) + "\n"
    amount = f"{chance.randrange(1, 500)}.{chance.randrange(100):02} EUR"
    level = "WARN " if chance.random() < 0.05 else "INFO "
    verb = "booked late" if level == "WARN " else "booked"
    return f"{time} {level} [{worker}] shop.payments.Ledger - #{number} {verb}: {amount}, {order}\n"


def _stack_trace(chance: Random) -> list[str]:
    depth = chance.randrange(3, len(_FRAMES) + 1)
    return [
        "shop.payments.BookingFailed: the bank does not answer",
        *(f"\tat {frame}" for frame in _FRAMES[-depth:]),
        "Caused by: java.net.SocketTimeoutException: Read timed out",
        *(f"\tat {frame}" for frame in _FRAMES[:depth]),
        f"\t... {depth} more",
    ]


def pace(seconds: float) -> float:
    """Returns the current rate of bookings, which come in batches: busy for three seconds of
    twelve."""
    return 900 if seconds % 12 < 3 else 150


PAYMENTS: Final = Application("payments", Numbered("payments"), 384 * 1024, pace, event)

if __name__ == "__main__":
    main(PAYMENTS)
