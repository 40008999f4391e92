"""The setting of the wall clock, told by the time since the boot, which goes on evenly when the
clock is set. Pure, except for `boot_id`."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
SMALL_MILLIS: Final = 2_000  # leap seconds, corrections, pauses between two readings


class ClockSetting(NamedTuple):
    """What the wall clock would have shown at the boot. Changes only when the clock is set."""

    boot_id: str = ""
    booted_millis: int = 0

    def set_since(self, before: "ClockSetting") -> int | None:
        """By how many milliseconds the clock was set since `before`; None if the host was booted in
        between, or may have been."""
        if not self.boot_id or self.boot_id != before.boot_id:
            return None
        return self.booted_millis - before.booted_millis

    def read(self, boot_millis: int, wall_millis: tuple[int, int]) -> "ClockSetting":
        """The setting now, by readings of the wall clock before and after that of the time since
        the boot. The same as before, if a pause between the readings explains the difference."""
        earliest, latest = (millis - boot_millis for millis in wall_millis)
        return self._replace(booted_millis=min(max(self.booted_millis, earliest), latest))


@cache
def boot_id() -> str:
    """Identifies this boot of the kernel; empty if unknown."""
    with suppress(OSError):
        # Not as text: a codec that is first looked up without a free descriptor stays unknown.
        return _BOOT_ID.read_bytes().decode("ascii").strip()
    return ""


def set_words(millis: int) -> str:
    """Describes that the clock was set by so much; empty if that is little."""
    if abs(millis) <= SMALL_MILLIS:
        return ""
    return f"the clock was set {'ahead' if millis > 0 else 'back'} by {abs(millis) / 1000:,.0f} s"
