"""`python -m mtkit`, which is also how torchrun starts it."""

from mtkit.cli.entry import main

if __name__ == "__main__":
    main()
