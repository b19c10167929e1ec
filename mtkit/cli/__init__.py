"""The command line; it contains no logic of translation or training.

- commands/: one module per command, which reads options, calls one library function and prints the result.
- app: all commands by section, as `mtkit --help` lists them. entry: runs a command line and returns its exit code.
- options: arguments and options shared by commands. input: lines from a file, a pipe or a terminal.
- exit_codes, usage, memory: exceptions into exit codes and one-sentence messages. streams: stdin, stdout and stderr.
- display, download: live progress of a training or a download. printing: lines and tables on stdout.
"""

from mtkit import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the command line in `sys.argv`; signals are handled before anything that takes time is imported."""
    signals.install(signals.exit_at_once)
    from mtkit.cli import entry

    entry.main()
