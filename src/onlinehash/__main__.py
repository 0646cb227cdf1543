"""`python -m onlinehash` is the command line."""

from onlinehash.cli import main

if __name__ == "__main__":
    main()
