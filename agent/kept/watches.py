"""Which watches a queue of inotify has: what the kernel says of its descriptor."""

from pathlib import Path


def watches_of(fd: int) -> dict[int, int]:
    """The mask of each, by its number. Raises OSError."""
    found = {}
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
        if line.startswith("inotify "):
            fields = dict(field.partition(":")[::2] for field in line.split()[1:])
            found[int(fields["wd"])] = int(fields["mask"], 16)
    return found
