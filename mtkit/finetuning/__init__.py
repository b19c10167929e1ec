"""Fine-tuning: a training that begins with the weights of a model, and its effect on own and general text."""
