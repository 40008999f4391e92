"""A shop's web server: its access log is JSON, one object a line, with the fields of its schema.

{"time": "2026-11-20T07:12:00.123Z", "number": 17, "client": "203.0.113.9", …}
"""

import json
import math
from datetime import datetime
from random import Random
from typing import Final

from penstock.demo.applications.log_writer import Application, Shifted, main

_PRODUCTS: Final = ("lamp", "kettle", "chair", "bicycle", "umbrella", "radio", "blanket")
_BROWSERS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.1 Safari",
    "curl/8.11.0",
)
_STATUSES: Final = (200,) * 90 + (304,) * 5 + (404,) * 4 + (500,)


def event(number: int, at: datetime, chance: Random) -> str:
    product = chance.choice(_PRODUCTS)
    is_order = chance.random() < 0.08
    entry = {
        "time": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
        "number": number,
        "client": f"203.0.113.{chance.randrange(1, 255)}",
        "method": "POST" if is_order else "GET",
        "path": "/cart" if is_order else f"/products/{product}",
        "query": None if is_order else f"page={chance.randrange(1, 9)}",
        "status": chance.choice(_STATUSES),
        "bytes": chance.randrange(200, 90_000),
        "duration_ms": round(chance.expovariate(1 / 20), 3),
        "user": chance.randrange(1, 5_000) if chance.random() < 0.4 else None,
        "referrer": "https://search.example/" if chance.random() < 0.2 else None,
        "user_agent": chance.choice(_BROWSERS),
        "secure": chance.random() < 0.97,
    }
    return f"{json.dumps(entry)}\n"


def pace(seconds: float) -> float:
    """Returns the current rate of requests, which rises and falls like a tide."""
    return 1_000 + 700 * math.sin(seconds * math.tau / 20)


SHOP: Final = Application("shop", Shifted("access.log"), 1024 * 1024, pace, event)

if __name__ == "__main__":
    main(SHOP)
