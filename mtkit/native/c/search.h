/* Search for the translations of a batch: beam search, greedy search and sampling.

   A limited number of sentences is in work at once. When the search of one ends, the next one takes its place, so that
   every step has as many hypotheses as possible, and the memory does not grow with the batch (continuous batching).
   Each sentence has the same result in any company, since a row of a step has the same bits in any batch. Threads may
   share a task: each has a search of its own, and takes the next sentence from the task.

   The rules are those of mtkit/search/beam.py and mtkit/search/single_path.py, where they are explained.

   search.c       sentences come and go; one position of all sentences in work
   hypotheses.c   tokens of hypotheses, their slots in the cache, finished hypotheses
   beam.c         the best extensions of a beam, and its end
   single_path.c  the next token of greedy search and of sampling: a random one
   constraints.c  changes of logits

   Functions that return an int return 0 if memory is exhausted, unless they say otherwise. */

#ifndef SEARCH_H
#define SEARCH_H

#include "constraints.h"
#include "transformer.h"

enum { FAILED = -1 };

/* Tokens are drawn from softmax(logits / temperature), truncated by all of the settings and renormalised: sampling has
   the distribution and the random numbers of mtkit/search/single_path.py. */
typedef struct {
    const int64_t *sentence_ids; /* [B] a number for each sentence that does not depend on its batch */
    double temperature;
    double top_p;   /* only the smallest set with this mass; 1: all */
    double epsilon; /* only tokens this probable; 0: all */
    int64_t seed;
    int32_t top_k;  /* only the k most probable tokens; 0: all */
} Sampling;

/* What is to be translated, how, and where the results go; Python owns the memory. B sentences, L is `max_length`. */
typedef struct {
    const Stack *decoder;
    const Linear *output;
    const Pruned *pruned;           /* of the same weights: greedy search; or NULL */
    const Constraints *constraints; /* or NULL */
    const Sampling *sampling;       /* of `width` paths; NULL: beam search, also of one hypothesis */
    const float *embeddings;        /* [V, D] */
    const float *positions;         /* [L + 1, D], added to embeddings; or NULL */
    const float *rotations;         /* [L + 1, K] cos and sin; or NULL */
    const int32_t *banned;          /* tokens that extend no hypothesis; the last one is the end of sentence */
    const float *divisors, *summands; /* [L + 2]: score = log-probability / divisors[n] + summands[n] for n tokens, the
                                         end included */
    const float *states;            /* [R, D] encoder states */
    const int64_t *first_states;    /* [B] row of the first state of each sentence */
    const int32_t *source_lengths, *max_lengths, *min_lengths; /* [B] */

    int32_t *tokens;                /* [B, n_best, L]; results, best first */
    float *log_probs;               /* [B, n_best, L + 1] of each token and of the end, by the model */
    float *scores;                  /* [B, n_best] */
    int32_t *lengths;               /* [B, n_best] */
    int32_t *is_finished;           /* [B, n_best] 0: the end was forced */
    int32_t *counts;                /* [B] number of results, 0 before; FAILED: not finite */
    float *attention;               /* of each token of sentence b, [n_best, max_lengths[b], source_lengths[b]]; or NULL */
    const int64_t *first_attention; /* [B] the first number of each sentence in `attention` */
    int32_t *alternatives;          /* [B, n_best, L + 1, num_alternatives] the model's best tokens at each position; -1:
                                       there are no more */
    float *alternative_log_probs;

    float coverage_weight;          /* of the coverage penalty in the scores of finished hypotheses; 0: none */
    float embedding_scale, enough_ends; /* enough_ends: patience times width */
    int32_t num_banned, bos, width, n_best, num_sentences, max_source_length, max_length;
    int32_t num_alternatives;
    int32_t with_log_probs;         /* of greedy search; other searches compute them in any case */
    int32_t is_single_path;         /* greedy search or sampling: scores are of the model's log-probabilities */
    int32_t stops_early;            /* enough_ends counts; else n_best is `width`, see beam.c */
    int32_t next_sentence;          /* the first one that no search has taken yet */
} Task;

/* A sentence in work. */
typedef struct {
    int32_t sentence;      /* index in the task */
    int32_t place;         /* index in caches and memories */
    int32_t width, length; /* hypotheses, and tokens of each */
    int32_t ended;         /* hypotheses that have ended, also those that are not among the n best */
} Active;

/* Hypotheses [rows] of the sentences in work, one sentence after another. */
typedef struct {
    int32_t *tokens, *slots; /* [rows, stride]; slots of the tokens that the decoder has read, in the cache, or NULL */
    float *token_log_probs;  /* [rows, stride] by the model */
    float *log_prob;         /* [rows] after constraints */
    int32_t *paths;          /* [rows], of sampling */
} Hypotheses;

/* What the model said about the token after each token in the cache. */
typedef struct {
    float *attention;        /* [places, capacity, max_source_length]; or NULL */
    int32_t *alternatives;   /* [places, capacity, num_alternatives]; or NULL */
    float *alternative_log_probs;
} Notes;

typedef struct {
    Task *task;
    int num_places, num_free, num_active, num_rows, stride, capacity, source_capacity, is_exhausted;
    Active *active;                /* [places] */
    int32_t *free_places;          /* [places], the first num_free of them */
    Hypotheses now, next;          /* `next` is written while `now` is read */
    int32_t *active_of;            /* [rows] index in `active` */
    Row *rows;                     /* what the decoder needs of each hypothesis */
    Cache *caches;                 /* [layers] */
    Memory *memories;              /* [layers] */
    Notes notes;
    Constrainer constrainer;
    char *is_used;                 /* [capacity] slots of a sentence */
    float *x;                      /* [rows, D] */
    float *head_attention;         /* [rows, H, max_source_length]; or NULL */
    float *normaliser, *end_logit; /* [rows] */
    Candidate *candidates;         /* [places, W] the best extensions of a beam, or sampled tokens */
    int32_t *num_candidates;       /* [places] */
    int64_t *best_tokens;          /* [rows], of greedy search, by logits of float32 */
    float *best_logits;            /* [rows] */
    float *best_log_probs;         /* [rows] by the output projection, of which the model's other log-probabilities are */
} Search;

INLINE int needs_attention(const Task *task) { return task->attention || task->coverage_weight > 0; }

INLINE int end_of(const Task *task) { return task->banned[task->num_banned - 1]; }

INLINE float score_of(const Task *task, float log_prob, int length) {
    return log_prob / task->divisors[length] + task->summands[length];
}

/* hypotheses.c */

/* Memory for the tokens that the decoder reads: caches and notes. */
INTERNAL int allocate_cache(Search *search);
INTERNAL void free_cache(Search *search);

/* A slot for the next token of each hypothesis of a sentence, whose first row is `first`. */
INTERNAL int assign_slots(Search *search, const Active *active, int first);

/* Store attention and alternatives of a row; the attention is [H, max_source_length]. */
INTERNAL void note_attention(Search *search, const Active *active, int row, const float *head_attention);
INTERNAL int note_alternatives(Search *search, const Active *active, int row, const Logits *logits);

/* Write the hypothesis `row` of `now` and one more token into row `to` of `next`. */
typedef struct {
    int32_t row, token;
    float token_log_prob, log_prob; /* by the model; of the hypothesis, after constraints */
} Extension;
INTERNAL void extend(Search *search, const Active *active, const Extension *extension, int to);

/* Put a hypothesis into the n best of its sentence; among equals those that ended first are better. */
typedef struct {
    int32_t row;
    float token_log_prob, log_prob; /* of the end (NaN: not computed); of the hypothesis with its end */
    int32_t is_finished;
} Ending;
INTERNAL void add_result(Search *search, const Active *active, const Ending *ending);

/* search.c: change the logits of a row by the constraints and exclude tokens, the end of sentence among them unless
   `with_end`. Returns the model's logits (see `constrain`); NULL if memory is exhausted. */
INTERNAL float *restrict_logits(Search *search, int row, Logits *logits, int with_end);

/* The model's log-probability of a token of a row, from its logit after `restrict_logits`. */
INTERNAL float model_log_prob(const Search *search, int row, float *model_logits, int token, float logit);

/* beam.c and single_path.c: a row of logits, and one position of a sentence. `first` is its first row; its hypotheses go
   on from row `to` of `next`. The latter return whether the sentence is done. */
INTERNAL int rank_extensions(Search *search, int row, Logits *logits);
INTERNAL int advance_beam(Search *search, Active *active, int first, int to);
INTERNAL int sample_tokens(Search *search, int row, Logits *logits);
INTERNAL int advance_paths(Search *search, Active *active, int first, int to);
INTERNAL int choose_most_probable(Search *search);
INTERNAL int advance_greedily(Search *search, Active *active, int row, int to);
INTERNAL void end_at_limit(Search *search);

#endif
