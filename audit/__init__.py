"""The audit: adds up the reports in the ledger, judges them, and shows the result. One thread
writes, one for each cluster reads its `_audit`, one answers over HTTP."""
