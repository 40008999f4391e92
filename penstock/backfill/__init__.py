"""`penstock backfill`: the archives that an agent reads."""
