"""Claims of the literature, each tested by a short study: `mtkit reproduce`.

claim     ClaimConfig: the keys of a claim, and its reading
system    translations of models that are changed after training
measure   a claim from its trainings to its result: values of a metric for each system and seed
bleu_statistics  BLEU of any test lines from statistics of each line, and its error
records   what is measured of a training, stored when it ends; values of its log and of its encoder's attention
effect    difference of two systems: effect, confidence interval, and the verdict that follows from them
results   numbers of a tested claim, their file, and two tests of a claim together
report    docs/evidence.md from claims and results, and a result for the terminal
"""
