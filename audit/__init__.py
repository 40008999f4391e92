"""The audit: what the ledger says, added up, judged and shown. One thread writes, one for each
cluster reads its `_audit`, one answers over HTTP.
"""
