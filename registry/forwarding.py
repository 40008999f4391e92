"""Writes that another registry must do: passed on to the writer, whoever that is by then.

Skeleton.
"""

from dataclasses import dataclass
from typing import Final

FORWARDED: Final = "penstock-forwarded"  # a request's header: a registry passed it on
OFFSET: Final = "penstock-offset"  # the answer's: what the writer had read of the topic by then


@dataclass(frozen=True, slots=True)
class Request:
    """A client's write, as it is passed on. `forwarded` if it has been already, once."""

    method: str
    target: str  # path and query, as they came
    headers: tuple[tuple[str, str], ...]  # those that the writer must see
    body: bytes
    forwarded: bool = False


@dataclass(frozen=True, slots=True)
class Passed:
    """The writer's answer, as the client is to get it."""

    status: int
    content_type: str
    body: bytes
