"""Tables about topics: sums of their windows, and pictures of them for the judge."""
