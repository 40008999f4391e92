from typing import Any

from typing_extensions import Buffer

class Reader:
    def __new__(cls, record: tuple[Any, ...], /) -> Reader: ...
    def records(
        self,
        data: Buffer,
        count: int,
        schema_id: int,
        places: tuple[int, int, int] | None,
        room: int,
        /,
    ) -> Any | None: ...
    def bodies(self, messages: list[bytes], first: int, end: int, room: int, /) -> Any | int: ...
