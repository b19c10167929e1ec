"""Fine-tuning: a training that begins with the weights of a model, and its effect on own and general text.

texts       own and general text, split into train, valid and test
extension   a copy of the model with more tokens for the own text
settings    rules for batch size, updates, validations and the share of general text
range_test  the learning rate, by short trainings
finetune    the steps of `mtkit finetune`
choice      the model that is kept: the fine-tuned one, or the base where nothing is gained
mixtures    interpolation of the weights before and after
report      tables before and after, and the lines that changed most
"""
