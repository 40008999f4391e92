"""`penstock schemas`: what a registry holds, and files of schemas on their way there."""
