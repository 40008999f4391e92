"""`python -m penstock` is `penstock`."""

from penstock.command_line import main

if __name__ == "__main__":
    main()
