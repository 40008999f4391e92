"""Programs that write logs as real ones do, and rotate them."""
