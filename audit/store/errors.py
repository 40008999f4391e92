"""What can go wrong with the database.

StoreError
├── StoreDamaged      it is not as it was written: discard it, and build it anew from `_audit`
└── TooMuch           what it was given cannot be kept, whatever the state of the database
"""


class StoreError(Exception):
    """The audit's database cannot be used."""


class StoreDamaged(StoreError):
    """It can be thrown away, as all that is in it can be read from `_audit` again."""


class TooMuch(StoreError):
    """It was given something that is larger than any row can be, or of another kind."""
