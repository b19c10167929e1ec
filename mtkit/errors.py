"""The error tree: one class for each exit code. What a user can cause is raised as one of these."""

from __future__ import annotations

from typing import Any


class MtkitError(Exception):
    """Something that a user can cause and mend; the message says what, where, and the remedy.

    A command prints the message without a traceback and exits with `exit_code`. What is raised as anything else is a
    fault of mtkit: the command says so and exits with 1.
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """From process to process as it is, and not, as exceptions otherwise are, made anew from its message."""
        return Exception.__new__, (type(self), *self.args), vars(self)


class UsageError(MtkitError):
    """The command was called wrongly."""

    exit_code = 2


class DataError(MtkitError):
    """The content of an input file cannot be used."""

    exit_code = 65


class DamagedError(DataError):
    """What mtkit wrote is no longer as it was written; `what` says so without the remedy."""

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what if remedy is None else f"{what}; {remedy}")
        self.what = what


class MissingInputError(MtkitError):
    """An input file or folder is not there."""

    exit_code = 66


class MissingExtraError(MtkitError):
    """A command needs an optional dependency that is not installed."""

    exit_code = 69

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"this needs the package {package}: pip install 'mtkit[{extra}]'")


class TrainingError(MtkitError):
    """Training cannot go on, since a loss is not finite; or memory is used up, in training or another command."""

    exit_code = 70


class ReadWriteError(MtkitError):
    """The operating system refused to read or to write."""

    exit_code = 74


class BusyError(MtkitError):
    """Another process holds the run folder."""

    exit_code = 75


class RecipeError(MtkitError):
    """The recipe, or an override of it, is wrong or has changed."""

    exit_code = 78


class Interrupted(MtkitError):
    """A signal asked the program to end; what there was to save has been saved."""

    def __init__(self, signal_number: int, message: str = "interrupted; the state is saved") -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class ReaderGoneError(MtkitError):
    """Whoever read our output closed it."""

    exit_code = 141
