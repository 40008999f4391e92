"""What a task does: it reads a slice, and gives the pieces of the files that the slice becomes."""
