"""Commands: training.

train        training of a recipe
finetune     own text for an existing model
watch        progress of a training that another process runs
checkpoints  checkpoints of a run
average      mean of several checkpoints
study        comparison of variants of a recipe
"""
