"""The command line; it contains no logic of translation or training.

commands/   one module per command, by section, which reads options, calls one library function and prints the result
app         all commands by section, as `mtkit --help` lists them
entry       running of a command line, which ends with an exit code
examples    an example of each command, for its help
options     arguments and options that commands share
input       lines from a file, a pipe or a terminal
dialogue    questions about the last translation at a terminal
streams     stdin, stdout and stderr
exit_codes  exceptions into exit codes and one sentence
usage       wrong usage in one sentence, with a suggestion
display     live progress of a training or a download
printing    lines and tables on stdout
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
