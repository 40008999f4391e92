"""`penstock gate`: decides whether the next host of a rolling change may be changed."""
