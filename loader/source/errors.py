"""What can go wrong with the data source alone: more branches of the tree in loader/errors.py.

LoaderError
├── OptionRefused     an option is unknown, contradicts another, or cannot be understood
└── DeadRecord        a record cannot be decoded, and nobody said that this does not matter
"""

from loader.errors import LoaderError


class OptionRefused(LoaderError):
    pass


class DeadRecord(LoaderError):
    pass
