"""What a file is: which source it is, whatever has become of its name. Rules are in `identity`."""
