"""Claims of the literature, each tested by a short study: `mtkit reproduce`.

claim     ClaimConfig: the keys of a claim's file, and its reading
system    translations of models that are changed after training
measure   values of a metric for each system and seed
bleu_statistics  BLEU of any test lines from statistics of each line, and its error
records   what is measured of a training, stored when it ends; values of its log and of its encoder's attention
effect    difference of two systems: effect and confidence interval
verdict   one of five words, from an effect and its interval
results   the file of a tested claim
run       a claim from its trainings to its result
table     claims and results for the terminal
details   section of docs/evidence.md about one claim
report    docs/evidence.md from claims and results
"""
