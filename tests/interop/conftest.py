"""Servers for the tests with other programs."""

from tests.e2e.conftest import tokenizers
from tests.e2e.serve.conftest import models, server, translated

__all__ = ["models", "server", "tokenizers", "translated"]
