"""Commands: training.

train        training of a recipe
watch        progress of a training that another process runs
checkpoints  checkpoints of a run
average      mean of several checkpoints
study        comparison of variants of a recipe
"""
