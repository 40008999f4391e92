"""Makes text from outside printable: names, messages, texts from peers.

File names are bytes that need not be UTF-8; Python represents them with surrogates.
"""


def one_line(text: str) -> str:
    """Escapes characters that could control a terminal or look like a line break.

    Unprintable characters are escaped as in Python, and so are bytes of a name that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def error_words(error: BaseException) -> str:
    """Returns an error's text, or its type if it has no text, like the TimeoutError of a future."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def plain_words(text: str) -> str:
    """Returns a text as one line, without unprintable characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def path_text(path: str) -> str:
    """Replaces the parts of a file name that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
