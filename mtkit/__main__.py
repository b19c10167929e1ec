"""Entry point of `python -m mtkit`, also used by torchrun."""

from mtkit.cli import main

if __name__ == "__main__":
    main()
