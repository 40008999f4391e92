from typing import TypeAlias

_Numbers: TypeAlias = list[int] | int
_Stretch: TypeAlias = tuple[
    bytes, bytes, bytes, bool, _Numbers, _Numbers, _Numbers, list[bytes], list[bytes] | None
]

def frame(stretches: tuple[_Stretch, ...], base_time: int, /) -> bytes: ...
def measure(bodies: list[bytes], /) -> tuple[int, int]: ...
