"""Configurations of search methods, and the union of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

if TYPE_CHECKING:
    from mtkit.search.run import Search, SearchParts
    from mtkit.search.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """Beam search (see BeamSearch); greedy search (see SinglePathSearch) if beam_size is 1."""

    kind: Literal["beam"] = "beam"

    num_hypotheses_key: ClassVar[str] = "beam_size"
    seed: ClassVar[None] = None
    ignored_keys: ClassVar[frozenset[str]] = frozenset()

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return beam_size

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        from mtkit.search.beam.beam import build_beam_search
        from mtkit.search.beam.selection import TopExtensions

        return build_beam_search(parts, TopExtensions())


@dataclass(frozen=True, kw_only=True)
class DiverseBeamConfig:
    """Beam search in groups of hypotheses that penalise each other's tokens (see DiverseBeam)."""

    kind: Literal["diverse"] = "diverse"
    groups: Annotated[int, Field(gt=0)] = 5  # of beam_size / groups hypotheses each; must divide beam_size
    diversity_strength: Annotated[float, Field(ge=0)] = 0.5  # nats; the paper finds 0.2 to 0.8 good

    num_hypotheses_key: ClassVar[str] = "beam_size"
    seed: ClassVar[None] = None
    ignored_keys: ClassVar[frozenset[str]] = frozenset()

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return beam_size

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""
        if beam_size % self.groups:
            raise ValueError(f"method.groups: {self.groups} does not divide beam_size {beam_size}")

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        from mtkit.search.beam.beam import build_beam_search
        from mtkit.search.beam.diverse import DiverseBeam

        return build_beam_search(parts, DiverseBeam(groups=self.groups, diversity_strength=self.diversity_strength))


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Sample tokens from softmax(logits / temperature), truncated by all of the options and renormalised.

    `beam_size`, `patience` and `coverage_penalty` have no effect (see Sampling).
    """

    kind: Literal["sampling"] = "sampling"
    temperature: Annotated[float, Field(ge=0.001)] = 1.0  # below 1 sharpens the distribution
    top_k: Annotated[int, Field(ge=0)] = 0  # only the k most probable tokens (Fan et al. 2018); 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0  # only the smallest set with this mass (Holtzman et al. 2020)
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0  # only tokens this probable (Hewitt et al. 2022); 0.02 suits MBR
    num_samples: Annotated[int, Field(gt=0)] = 1  # for each line; the n_best of them by score are returned
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1  # equal seeds give equal samples, whatever the batch

    num_hypotheses_key: ClassVar[str] = "method.num_samples"
    ignored_keys: ClassVar[frozenset[str]] = frozenset({"beam_size", "patience", "coverage_penalty"})

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return self.num_samples

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        from mtkit.search.single_path import SinglePathSearch

        return SinglePathSearch(parts, self.chooser(), self.num_samples)

    def chooser(self) -> Sampling:
        """Chooser of the next token."""
        from mtkit.search.sampling import Sampling

        return Sampling(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, epsilon=self.epsilon, seed=self.seed
        )


SearchMethodConfig = BeamConfig | DiverseBeamConfig | SamplingConfig  # each has the members of `run.SearchMethod`
