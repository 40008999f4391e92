from typing import TypeVar

from typing_extensions import Buffer

_Record = TypeVar("_Record", bound=tuple[object, ...])

def walk(records: Buffer, count: int, keyed: bool, /) -> None: ...
def read(
    make: type[_Record],
    records: Buffer,
    at: int,
    most: int,
    most_bytes: int,
    frame: tuple[int, int, int, int | None],
    previous: int,
    /,
) -> tuple[list[_Record], int]: ...
def spans(records: Buffer, count: int, name: Buffer, /) -> bytes: ...
