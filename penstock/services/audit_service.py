"""The audit's two services: the audit, and the counter for clusters that keep no ledger.

Apart from the command, so that `penstock audit retire` and `accept` work on hosts that have no
packages of the audit.
"""

import columns.system_memory  # noqa: F401  must come first
from audit.process.counter import run_counter
from audit.process.program import run

__all__ = ["run", "run_counter"]
