"""Entry point of `python -m mtkit`, also used by torchrun."""

from mtkit.cli.entry import main

if __name__ == "__main__":
    main()
