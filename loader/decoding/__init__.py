"""Record batches become rows: columns in Arrow, whatever schema each was written with."""
