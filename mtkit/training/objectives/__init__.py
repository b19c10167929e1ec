"""Training objectives: functions of (model, micro-batch) that return the loss."""
