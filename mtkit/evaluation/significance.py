"""Significance of differences between systems: sacreBLEU's paired bootstrap test.

Koehn 2004, https://aclanthology.org/W04-3250.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer


@dataclass(frozen=True)
class Significance:
    """The result of a paired significance test.

    Attributes:
        p_values: p-value of each system against the baseline. It is 1 for equal scores, which sacreBLEU's test would
            treat as a significant difference.
        signature: sacreBLEU's signature of the test and its metric.
    """

    p_values: dict[str, float]
    signature: str


def paired_bootstrap(
    baseline: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    *,
    tokenize: SacrebleuTokenizer,
    num_samples: int = 1000,
) -> Significance:
    """Compare systems with a baseline by BLEU, on samples of the test set taken with replacement.

    Args:
        baseline: translations of the baseline.
        systems: translations of each system, with the same number of lines.
        refs: one or more references, each with the same number of lines.
        tokenize: sacreBLEU's tokenizer, not auto.
        num_samples: number of bootstrap samples; the default is sacreBLEU's. The minimum p-value is
            1 / (num_samples + 1).
    """
    named: list[tuple[str, Sequence[str]]] = [("", list(baseline))]
    named += [(name, list(hyps)) for name, hyps in systems.items()]
    metric = BLEU(tokenize=tokenize, references=[list(ref) for ref in refs])
    signatures, scores = PairedTest(named, {"BLEU": metric}, None, test_type="bs", n_samples=num_samples)()
    first, *others = (result for result in scores["BLEU"] if isinstance(result, Result))
    return Significance(
        {name: _p_value(first, other) for name, other in zip(systems, others, strict=True)}, str(signatures["BLEU"])
    )


def _p_value(baseline: Result, system: Result) -> float:
    return 1.0 if system.score == baseline.score or system.p_value is None else float(system.p_value)
