"""Confluent's texts for failed writes, which differ by operation."""

from typing import Final, NamedTuple

_UNKNOWN: Final = "Leader not known."


class ErrorTexts(NamedTuple):
    """The texts of errors 50001, 50002, 50003 and 50004."""

    failed: str
    timed_out: str
    not_forwarded: str
    no_leader: str = _UNKNOWN


def _forwarding(what: str) -> str:
    return f"Error while forwarding {what} request to the leader"


REGISTERING: Final = ErrorTexts(
    "Register schema operation failed while writing to the Kafka store",
    "Register operation timed out",
    _forwarding("register schema"),
)
DELETING_VERSION: Final = ErrorTexts(
    "Delete Schema Version operation failed while writing to the Kafka store",
    "Delete Schema Version operation timed out",
    _forwarding("delete schema version"),
)
DELETING_SUBJECT: Final = ErrorTexts(
    "Delete subject operation failed while writing to the Kafka store",
    "Delete subject operation timed out",
    _forwarding("delete subject"),
)
CHANGING_CONFIG: Final = ErrorTexts(
    "Failed to update compatibility level",
    "Update config operation timed out",
    _forwarding("update config"),
    "Failed to update compatibility level",
)
REMOVING_CONFIG: Final = ErrorTexts(
    "Failed to delete compatibility level",
    "Delete config operation timed out",
    _forwarding("delete config"),
    "Failed to delete compatibility level",
)
CHANGING_MODE: Final = ErrorTexts(
    "Failed to update mode",
    "Update mode operation timed out",
    _forwarding("update mode"),
    "Failed to update mode",
)
REMOVING_MODE: Final = ErrorTexts(
    "Failed to delete mode",
    "Delete mode operation timed out",
    _forwarding("delete mode"),
    "Failed to delete mode",
)
