"""Training objectives: functions of (model, micro-batch) that return the loss.

config         configurations, and the union of kinds that a recipe can name
capabilities   base class of the configurations
interface      the protocols of objectives and of the sampler of translations, and the inputs of objectives
cross_entropy  label-smoothed cross-entropy
r_drop         agreement of two forward passes with different dropout
unlikelihood   a penalty on tokens that would repeat earlier ones
guided_alignment  attention that a lexicon guides
minimum_risk   expected sentence-level risk over sampled translations
joint_lm       cross-entropy of source and target, for decoder-only models
masked_lm      masked language modelling, for the encoder alone
distillation   the distribution and the states of a teacher
chunked_divergence  divergence of the distributions without [N, V] logits
"""
