"""`penstock mirror …`: what is done with copies, beside the worker that makes them."""
