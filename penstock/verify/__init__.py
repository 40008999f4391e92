"""`penstock verify`: checks hour certificates, and the files that they certify, offline."""
