"""`penstock size`: estimates a site's needs from measurements."""
