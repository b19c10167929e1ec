/* Sampling of the next token: the distribution and the random numbers of mtkit/search/sampling.py. */

#ifndef SAMPLING_H
#define SAMPLING_H

#include "ranking.h"

/* Tokens are drawn from softmax(logits / temperature), truncated by all of the settings and renormalised. */
typedef struct {
    const int64_t *sentence_ids; /* [B] a number for each sentence that does not depend on its batch */
    double temperature;
    double top_p;   /* only the smallest set with this mass; 1: all */
    double epsilon; /* only tokens this probable; 0: all */
    int64_t seed;
    int32_t top_k;  /* only the k most probable tokens; 0: all */
} Sampling;

/* A number in [0, 1) of a choice: splitmix64 (Steele et al. 2014) of the seed and the identity of the choice. */
INTERNAL double uniform(const Sampling *sampling, int sentence, int path, int step);

/* The token for a random number in [0, 1), by inverse transform sampling: -1 if all logits are -inf, -2 if memory is
   exhausted. */
INTERNAL int sample(const Sampling *sampling, const Logits *logits, double random);

#endif
