"""`penstock gate`: whether the next host may be changed."""
