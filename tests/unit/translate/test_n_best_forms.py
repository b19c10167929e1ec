"""N-best lists: ours, with lines from 1, and those of Moses, with lines from 0 and four fields."""

from mtkit.translate.output import as_moses_n_best, as_n_best
from mtkit.translate.translation import Alternative, Translation


def test_both_forms_of_one_list() -> None:
    nbest = (Alternative(hyp="a b", score=-0.5, log_prob=-1.5), Alternative(hyp="c", score=-2.0, log_prob=-2.0))
    translation = Translation(line=3, hyp="a b", nbest=nbest)
    assert as_n_best(translation, "x").split("\n") == ["3 ||| a b ||| -0.500000", "3 ||| c ||| -2.000000"]
    moses = [line.split(" ||| ") for line in as_moses_n_best(translation, "x").split("\n")]
    assert moses == [["2", "a b", "LogProb= -1.500000", "-0.500000"], ["2", "c", "LogProb= -2.000000", "-2.000000"]]
    assert as_moses_n_best(Translation(line=1, hyp=""), "") == "0 |||  ||| LogProb= 0.000000 ||| 0.000000"
