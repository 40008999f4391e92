"""The log of long-running programs: one line per event, on stderr.

    2026-11-20T07:00:00.123Z INFO cluster.session.session zookeeper session connected
    address=zk1:2181

or, with `--log-format json`, the same as an object. An event is always one line: unprintable
characters, and the line breaks of a traceback, are escaped.
"""

import json
import logging
import sys
import time
from typing import Final, Literal

from ground.printable import one_line

LogFormat = Literal["text", "json"]
FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")


def log_to_stderr(log_format: LogFormat) -> None:
    """Sends the events of all packages to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}"
        if trace := _trace(self, record):
            line += f" traceback={trace}"
        return one_line(line)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        if trace := _trace(self, record):
            event["traceback"] = trace
        return json.dumps(event)


def _time(record: logging.LogRecord) -> str:
    seconds_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds_text}.{int(record.msecs):03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""
