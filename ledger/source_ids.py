"""Ids of journals and sources that name the key of their owner.

An id has 20 letters of base32. The id of a journal is made of its key's fingerprint, so nobody else
can begin a journal of that name and sign it. A source begins with ten letters of the id that its
journal's key makes; the other ten are random. So a source names its owner.

Journals of releases before signatures have random ids, and so have their older sources. Pure.
"""

import secrets
from typing import Final

from ground.signatures.keys import PublicKey

ID_LETTERS: Final = 20
OWNER_LETTERS: Final = 10

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTER_BITS: Final = 5


def journal_id(key: PublicKey) -> str:
    """Returns the id of the journal that is signed with this key from its beginning."""
    digest = int(key.fingerprint, 16)
    return _letters(digest >> (256 - ID_LETTERS * _LETTER_BITS), ID_LETTERS)


def new_source_id(key: PublicKey) -> str:
    """Returns a new id for a source of the journal with this key."""
    letters = ID_LETTERS - OWNER_LETTERS
    return journal_id(key)[:OWNER_LETTERS] + _letters(
        secrets.randbits(letters * _LETTER_BITS), letters
    )


def owner_of(source: str) -> str:
    """Returns the beginning of the id of the journal that owns a source."""
    return source[:OWNER_LETTERS]


def _letters(bits: int, count: int) -> str:
    shifts = range((count - 1) * _LETTER_BITS, -1, -_LETTER_BITS)
    return "".join(_ALPHABET[bits >> shift & 31] for shift in shifts)
