"""Promises that are known to be broken, until they are kept: patterns of faults, and trials that show each.

The trials of KNOWN_TRIALS are expected to fail: a test fails when the promise is kept, and the entries are removed.
"""

from __future__ import annotations

TEMPORARY = "temporary files of a killed process stay"
UNHANDLED = "a signal that is handled during training only ends the other stages without a message"
LATE = "Ctrl-C while the interpreter ends prints a traceback"
WRAPPED = "the exception of SIGTERM becomes another's, or is raised after the command has ended"
TWO_WRITERS = "two processes share FILE.part, and PREFIX.model and PREFIX.vocab are replaced one after the other"
UNCHECKED = "fields of a manifest or record that nothing reads are not compared with a hash"
OPTIONAL = "the lexicon of a model folder that was deleted is not made again"
UNTYPED = "columns of a corpus manifest with values of another type are a TypeError"
WAITS = "a pipe or an endless device in the place of a file is read"

# pattern of "trial: fault" -> reason
KNOWN_FAULTS: dict[str, str] = {}
# pattern of trials that are left out of a short draw, since they last as long as the limit
KNOWN_HANGS = r" is (a pipe|a link to /dev/zero)$"
# (experiment, beginning of a trial's name) -> reason
KNOWN_TRIALS: dict[tuple[str, str], str] = {}
