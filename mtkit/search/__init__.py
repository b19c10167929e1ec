"""Search: from the logits of a decoder step to the hypotheses of a sentence.

A model takes part through `start` and `step` alone (interface.py), so that every method works with every model family.

    hypothesis        requests and results for single sentences
    interface         Stepper, DecoderState, DecoderStep: how search calls a model; SearchRequest and Hypothesis
    config            the recipe's `search:`, the methods, and the union of kinds that a recipe can name
    support           search key by engine: native backend, and the programs that models are exported for
    run               set-up that all methods share: limits, constraints, batch compaction
    beam/             beam search: the loop, live and finished hypotheses, selection, diverse groups, coverage
    single_path       greedy search, and sampling: temperature, top-k, nucleus and epsilon sampling
    constraints       what may follow a prefix: forced prefixes, forbidden texts, no repeated n-grams
    required_phrases  lexically constrained decoding: phrases that a translation must contain
    length_penalty    from log-probabilities to scores
    fast_topk         the k best columns and the log-normalisers of rows of logits
    ensemble          several models as one Stepper, a language model among them

To add a method: write a configuration derived from `SearchMethod` in config.py, and add it to the union there.
 Template: `PlainGreedy` in tests/toy/new_kinds/configs.py.

Shapes:

    B  sentences                    N  beams: B, or B times the number of diverse groups
    W  hypotheses of a beam         W' hypotheses that were chosen for the next step, at most the beam's width
    V  target vocabulary
    M  candidates of a beam         K  best columns of a row, or of the rows of a beam
    T  or t, target tokens so far   S  source tokens
    H  attention heads              rows: the hypotheses of a batch, N·W; those of beam n are n·W ... n·W + W - 1
"""
