"""What one process needs of the others. Alone, every function gives back what it was given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranks:
    """The processes of a training; alone, this one is rank 0 of 1."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes checkpoints and the log."""
        return self.rank == 0

    def sum(self, number: int) -> int:
        """The sum of every rank's number, on all of them."""
        if self.world_size > 1:
            raise ValueError(f"{self.world_size} processes, but sums over processes are not built yet")
        return number


ALONE = Ranks()
