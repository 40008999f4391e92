"""What a page shows as a command's output, held against what was printed. Pure."""

import re


def missing_line(shown: str, printed: str) -> str | None:
    """The first line that was not printed, in this order; … stands for anything, and so does a run
    of spaces for any other, as columns are as wide as what is in them."""
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in shown.splitlines():
        if not line.strip() or line.strip() == "…":
            continue
        pattern = _pattern(line)
        if not any(pattern.fullmatch(each) for each in lines):
            return line
    return None


def _pattern(line: str) -> re.Pattern[str]:
    parts = " ".join(line.split()).split("…")
    return re.compile(".*".join(re.escape(part) for part in parts))
