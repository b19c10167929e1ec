/* Constraints on the next token: changes of logits, in the order and with the rules of mtkit/search/constraints.py. */

#ifndef CONSTRAINTS_H
#define CONSTRAINTS_H

#include "ranking.h"

/* Constraints on the translations of B sentences. Lists of several sentences follow one another: those of sentence b are
   the elements first[b] ... first[b + 1] - 1. A text is excluded in whatever way it is split into tokens. */
typedef struct {
    const int32_t *prefixes, *first_prefix;           /* forced tokens, with which translations begin; [B + 1] */
    const uint8_t *token_bytes;                       /* the bytes that each token stands for */
    const int32_t *first_token_byte;                  /* [V + 1] */
    const uint8_t *text_bytes;                        /* the distinct excluded texts */
    const int32_t *first_text_byte;                   /* [texts + 1] */
    const int32_t *excluded_texts, *first_excluded;   /* indices of texts; [B + 1] */
    int32_t vocab_size, num_text_bytes;
    int32_t num_free;         /* tokens at the beginning of each prefix that cost nothing */
    int32_t no_repeat_ngram;  /* no n-gram of this many tokens twice; 0: off */
    float repetition_penalty; /* factor of the log-probabilities of used tokens; 0: off */
} Constraints;

/* Tokens that complete a text after its first bytes; computed when they are needed. */
typedef struct {
    int32_t *tokens; /* NULL: not computed yet */
    int32_t count;
} Completions;

/* Constraints with the memory of one thread. */
typedef struct {
    const Constraints *constraints;
    Completions *completions; /* [num_text_bytes], by text and number of its bytes that are matched */
} Constrainer;

/* A hypothesis that is extended: its sentence and its tokens [length]; the log sum exp of the logits that follow it, and
   those of them, before any change, that belong to its tokens and to the forced token [length + 1]. */
typedef struct {
    const int32_t *tokens;
    int sentence, length;
    float normaliser;
    float *model_logits;
} Hypothesis;

INTERNAL int begin_constraints(Constrainer *constrainer, const Constraints *constraints);
INTERNAL void end_constraints(Constrainer *constrainer);

/* The token that must follow, or -1. */
INTERNAL int forced_token(const Constraints *constraints, int sentence, int length);

/* Apply all constraints to the logits that follow a hypothesis, and set its `model_logits`. Returns 0 if memory is
   exhausted. */
INTERNAL int constrain(Constrainer *constrainer, Hypothesis *hypothesis, Logits *logits);

/* The logit of a token before `constrain`, from its logit after it. */
INTERNAL float unconstrained_logit(const Constraints *constraints, const Hypothesis *hypothesis, int token, float logit);

#endif
