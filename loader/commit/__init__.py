"""Makes a run take effect atomically, by one manifest, and then makes its files visible."""
