"""Text from outside, made fit for people and for files: names, messages, what a peer said.

A name of a file is bytes that need not be UTF-8. Python has it as text with surrogates inside.
"""


def one_line(text: str) -> str:
    """So that it can neither command a terminal nor look like two lines.

    What cannot be printed is escaped as Python does, and so are a name's bytes that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def plain_words(text: str) -> str:
    """Its words in one line, with nothing that cannot be printed."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def path_text(path: str) -> str:
    """As UTF-8 can hold it: what is not UTF-8 in a name is replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
