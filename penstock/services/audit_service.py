"""The audit's two services: the audit, and the counter for clusters whose brokers keep no ledger.

Separate from the command, so that `penstock audit retire` and `accept` work on hosts without the
audit's dependencies.
"""

import columns.system_memory  # noqa: F401  must come first
from audit.process.counter import run_counter
from audit.process.program import run

__all__ = ["run", "run_counter"]
