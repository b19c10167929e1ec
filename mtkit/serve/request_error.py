"""Error of a request: a status of HTTP and one sentence."""

from __future__ import annotations


class RequestError(Exception):
    """A request that gets no translation.

    Attributes:
        status: of HTTP.
        retry_after: seconds after which the client may try again; None: the same request fails again.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after
