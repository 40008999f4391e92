"""What can go wrong with the environment of executors, in one tree.

LoaderError (loader.errors)
└── EnvironmentFailed   says in one line what the driver or the executors lack, and what to do
    └── NotPackable     what is installed here cannot be shipped: a distribution is missing,
                        or is there only as a link to somebody's working directory
"""

from loader.errors import LoaderError


class EnvironmentFailed(LoaderError):
    pass


class NotPackable(EnvironmentFailed):
    pass
