"""Configurations of search methods, and the union of kinds that a recipe can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config

if TYPE_CHECKING:
    from mtkit.search.run import Search, SearchParts
    from mtkit.search.sampling import Sampling


@config
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


@config
class DiverseBeamConfig:
    """Beam search in groups of hypotheses that penalise each other's tokens (see DiverseBeam)."""

    kind: Literal["diverse"] = "diverse"
    # Number of groups, of beam_size / groups hypotheses each; it must divide beam_size. Default: one hypothesis in each
    # group of the default beam, the most diverse.
    groups: Annotated[int, Limits(gt=0)] = 5
    # Cost lambda in nats of each use of a token by an earlier group at the same step. Default: the middle of the
    # paper's good values, 0.2 to 0.8.
    diversity_strength: Annotated[float, Limits(ge=0)] = 0.5

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


@config
class SamplingConfig:
    """Sample tokens from softmax(logits / temperature), truncated by all of the options and renormalised.

    `beam_size`, `patience` and `coverage_penalty` have no effect (see Sampling).
    """

    kind: Literal["sampling"] = "sampling"
    # Divisor of the logits; below 1 it sharpens the distribution. Default: 1, the model's own distribution.
    temperature: Annotated[float, Limits(ge=0.001)] = 1.0
    # Number of the most probable tokens that are sampled from (Fan et al. 2018); 0 is all. Default: 0, no truncation.
    top_k: Annotated[int, Limits(ge=0)] = 0
    # Probability mass of the smallest set of tokens that is sampled from (Holtzman et al. 2020). Default: 1, no
    # truncation.
    top_p: Annotated[float, Limits(gt=0, le=1)] = 1.0
    # Least probability of a token that is sampled (Hewitt et al. 2022). Default: 0, no truncation; 0.02 suits minimum
    # Bayes risk reranking.
    epsilon: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    # Number of samples of each line, of which the n_best by score are returned. Default: 1, one translation.
    num_samples: Annotated[int, Limits(gt=0)] = 1
    # Seed of the random numbers; equal seeds give equal samples, whatever the batch. Default: any number will do.
    seed: Annotated[int, Limits(ge=0, lt=2**63)] = 1

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
