"""Whether one system is better than another by more than chance: sacreBLEU's paired bootstrap.

Koehn 2004, https://aclanthology.org/W04-3250.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from mtkit.evaluation.config import Segmentation


@dataclass(frozen=True)
class Significance:
    """What a paired test found.

    Attributes:
        p_values: of each system against the baseline: how likely a difference as large is if there is none. It is 1
            for equal scores, which sacreBLEU's test takes for a difference that is never exceeded.
        signature: of the test and its metric.
    """

    p_values: dict[str, float]
    signature: str


def paired_bootstrap(
    baseline: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    *,
    tokenize: Segmentation,
    samples: int = 1000,
) -> Significance:
    """Compare systems with a baseline by BLEU, over samples drawn from the test set with replacement.

    Args:
        baseline: its translations.
        systems: the translations of each, equally many.
        refs: one or more references, each with as many lines.
        tokenize: how BLEU cuts text; a name of sacreBLEU, not auto.
        samples: drawn; sacreBLEU's own number unless set. The least p-value is 1 / (samples + 1).
    """
    named: list[tuple[str, Sequence[str]]] = [("", list(baseline))]
    named += [(name, list(hyps)) for name, hyps in systems.items()]
    metric = BLEU(tokenize=tokenize, references=[list(ref) for ref in refs])
    signatures, scores = PairedTest(named, {"BLEU": metric}, None, test_type="bs", n_samples=samples)()
    first, *others = (result for result in scores["BLEU"] if isinstance(result, Result))
    return Significance(
        {name: _p_value(first, other) for name, other in zip(systems, others, strict=True)}, str(signatures["BLEU"])
    )


def _p_value(baseline: Result, system: Result) -> float:
    return 1.0 if system.score == baseline.score or system.p_value is None else float(system.p_value)
