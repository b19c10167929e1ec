"""Minimum Bayes risk decoding: choosing the translation that is most similar to all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Utility = Callable[[str, str], float]  # (hypothesis, reference) -> similarity; larger is better


def minimum_bayes_risk(utility: Utility) -> Callable[[Sequence[str]], list[int]]:
    """A function that ranks the n best translations or the samples of a line by their mean utility against all of them.

    Kumar and Byrne 2004; Eikema and Aziz 2020, equation 9, with the candidates as references of equal weight (the
    probability of a sample is in its frequency). https://arxiv.org/abs/2005.10283
    Equal texts are compared once. Among equals the first stays first.

    Args:
        utility: such as sentence-level chrF or BLEU.
    """

    def order(texts: Sequence[str]) -> list[int]:
        distinct = list(dict.fromkeys(texts))
        count = {text: texts.count(text) for text in distinct}
        expected = {h: sum(utility(h, ref) * n for ref, n in count.items()) / len(texts) for h in distinct}
        return sorted(range(len(texts)), key=lambda i: -expected[texts[i]])

    return order
