"""Spark for one load, started by whichever of its threads asks first, and ended with the load.

A load that finds nothing new asks never: then the driver has nothing to do for it. What keeps Spark
from starting is kept, too: it is the same for all tables, and none tries once more.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from loader.errors import LoaderError
from loader.spark_jvm import cancel_jobs, end_session


class SparkWhenNeeded:
    """A context. `start` raises LoaderError."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._starting = threading.Lock()
        self._lock = threading.Lock()  # of `_session`; never held for long
        self._session: Any = None  # Spark's; the loader knows its type
        self.failure: LoaderError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            end_session(session)

    def session(self) -> Any:
        """Raises LoaderError."""
        with self._starting:
            if self.failure is not None:
                raise self.failure
            if self._session is None:
                try:
                    started = self._start()
                except LoaderError as error:
                    self.failure = error
                    raise
                with self._lock:
                    self._session = started
            return self._session

    def cancel_jobs(self) -> None:
        """Those that run now. Does not wait for a session that is just being started."""
        with self._lock:
            if self._session is not None:
                cancel_jobs(self._session)
