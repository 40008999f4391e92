"""The type of options that name topics, with or without partitions."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

F = TypeVar("F", bound=Callable[..., Any])

_NUMBERS: Final = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)


class TopicArgument(msgspec.Struct, frozen=True):
    """A topic, or some partitions of it."""

    topic: str
    partitions: tuple[int, ...]  # all, if there are none


class TopicArgumentType(click.ParamType[TopicArgument]):
    """The type of topics, or of some of their partitions: `page_views` or `page_views:0,3`."""

    name = "topic"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicArgument:
        topic, separator, partition_list = value.partition(":")
        if not topic or (separator and not _NUMBERS.fullmatch(partition_list)):
            self.fail(f"{value!r} is neither a topic nor one with partitions, like views:0,3")
        partitions = tuple(map(int, partition_list.split(","))) if partition_list else ()
        return TopicArgument(topic, partitions)


def topics_option(*, required: bool = False) -> Callable[[F], F]:
    return click.option(
        "-t",
        "--topic",
        "topics",
        type=TopicArgumentType(),
        multiple=True,
        required=required,
        metavar="TOPIC",
        help="A topic, or some of its partitions, such as page_views:0,3; may be repeated.",
    )
