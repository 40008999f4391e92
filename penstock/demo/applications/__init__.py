"""Sample applications, which write and rotate logs like real ones."""
