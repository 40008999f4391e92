"""Record batches: read, written, checked, compressed."""
