"""Errors as other processes see them."""

from __future__ import annotations

import pickle

import pytest

from mtkit.errors import DamagedError, Interrupted, MissingExtraError, MtkitError, UsageError


@pytest.mark.parametrize(
    "error", [UsageError("a"), DamagedError("a", "b"), MissingExtraError("moses", "sacremoses"), Interrupted(15, "c")]
)
def test_an_error_goes_from_process_to_process_as_it_is(error: MtkitError) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there), vars(there)) == (type(error), str(error), vars(error))
