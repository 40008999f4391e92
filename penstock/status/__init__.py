"""How a pipeline stands, for `penstock status` and the screen of `up`: asked, joined, in words."""
