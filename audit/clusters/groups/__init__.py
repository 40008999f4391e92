"""Consumer groups as the brokers know them, with their topics and lags; shown beside the verdict,
not part of it."""
