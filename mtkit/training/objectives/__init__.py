"""Training objectives: functions of (model, micro-batch) that return the loss.

config            configurations, their base class, and the union of kinds that a recipe can name
interface         the base classes of objectives, the sampler of translations, and the inputs of objectives
cross_entropy     label-smoothed cross-entropy, R-Drop, unlikelihood, joint and masked language modelling
guided_alignment  attention that a lexicon guides
minimum_risk      expected sentence-level risk over sampled translations
distillation      the distribution and the states of a teacher
"""
