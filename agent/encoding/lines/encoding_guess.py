"""Guesses the encoding of text that does not look like its input's. The guess is a hint in the log
and the ledger, and is not used for decoding.
"""

from typing import Final

_LOOKED_AT: Final = 4096  # bytes
_MARKS: Final = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8"),
)
_BEYOND_ASCII: Final = bytes(range(128, 256))
_MANY: Final = 20  # at least one line in so many is damaged: rarer ones do not mean an encoding
_TEXT: Final = 3  # at most one byte in so many is not ASCII in text of Western languages


def looks_like(chunk: bytes, position: int, encoding: str, lines: int, damaged: int) -> str:
    """The encoding that a chunk looks like; empty if that is `encoding`, or unknown.

    `damaged` of its `lines` have replaced characters. At the beginning of a file, a byte order mark
    or the zero bytes of wide characters are enough.
    """
    head = chunk[:_LOOKED_AT]
    if not position:
        for mark, name in _MARKS:
            if head.startswith(mark):
                return "" if _family(encoding) == name else name
    is_wide = _family(encoding) in {"utf-16", "utf-32"}
    if not is_wide and (damaged or not position) and head.count(0) * 4 > len(head):
        return "utf-16"
    if damaged * _MANY <= lines or not damaged:
        return ""
    if is_wide:
        return "utf-8" if head.isascii() else ""
    if not head.decode("utf-8", "ignore").isascii():
        return ""  # it is UTF-8 apart from the damage
    non_ascii_count = len(head) - len(head.translate(None, _BEYOND_ASCII))
    if 0 < non_ascii_count * _TEXT <= len(head) and not encoding.startswith("cp125"):
        try:
            head.decode("cp1252")
        except UnicodeDecodeError:
            return ""
        return "cp1252"
    return ""


def _family(encoding: str) -> str:
    encoding_name = encoding.lower().replace("_", "-")
    return next(
        (name for name in ("utf-8", "utf-16", "utf-32") if encoding_name.startswith(name)), ""
    )
