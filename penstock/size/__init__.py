"""`penstock size`: what a site needs, calculated from what has been measured."""
