"""Studies: variants of a recipe, each trained from several seeds and compared in one table.

config        StudyConfig: the keys of a study file
load          a study file -> a checked recipe for each variant
runs          one run folder for each variant and seed, and its result
jobs          training in parallel processes, on shares of the CPU or on GPUs
run           the whole study: the plan of its runs, choice of learning rates, its execution, its report
results       mean, standard deviation and significance of every metric; tables
report        files and plots beside the runs
measures      measures of some studies alone: BLEU by length, validation loss without teacher forcing
"""
