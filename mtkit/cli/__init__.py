"""The command line; it contains no logic of translation or training."""

from mtkit import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the command line in `sys.argv`; signals are handled before anything that takes time is imported."""
    signals.install(signals.exit_at_once)
    from mtkit.cli import entry

    entry.main()
