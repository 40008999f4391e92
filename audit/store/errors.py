"""What can go wrong with the database.

StoreError
└── StoreDamaged      it is not as it was written: discard it, and build it anew from `_audit`
"""


class StoreError(Exception):
    """The audit's database cannot be used."""


class StoreDamaged(StoreError):
    """It can be thrown away, as all that is in it can be read from `_audit` again."""
