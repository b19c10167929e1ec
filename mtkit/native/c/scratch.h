/* Memory that a thread uses again in every call. A slot grows when a call needs more; it is freed when the thread ends.
   Threads share no slot, so that every function may run on several threads at once. */

#ifndef SCRATCH_H
#define SCRATCH_H

#include "vectors.h"

/* Slots are named for what they hold. Two uses of a slot must not overlap. */
typedef enum {
    OPERAND_ROWS,         /* activations in the type of a projection's weights */
    QUERIES_KEYS_VALUES,
    HEAD_OUTPUTS,
    ATTENTION_WEIGHTS,
    SENTENCE_KEYS_VALUES, /* of one sentence in the encoder */
    SOURCE_KEYS_VALUES,   /* of one sentence for the decoder, before they are arranged */
    INNER_ACTIVATIONS,    /* of the feed-forward layer */
    LOGITS,
    BLOCK_MAXIMA,         /* of logits */
    INTEGER_LOGITS,
    NUM_BANNED,         /* tokens that a hypothesis may not have next */
    RANKED_CANDIDATES,
    CUMULATIVE_MASS,      /* of ranked tokens, in sampling */
    LAST_BYTES,           /* of a hypothesis */
    MODEL_LOGITS,         /* of the tokens of a hypothesis, before constraints */
    PRODUCT_PANELS,       /* of a matrix product of training */
    PRODUCT_ROWS,         /* of its first operand, rounded */
    TRAINED_HEAD,         /* attention of one head of one sentence, and its gradients */
    LOSS_ROW,             /* logits of one position */
    NUM_SLOTS
} ScratchSlot;

/* At least `size` bytes, aligned to 64, with the contents of any earlier call; NULL if memory is exhausted. */
INTERNAL void *scratch(ScratchSlot slot, size_t size);

INLINE float *scratch_floats(ScratchSlot slot, size_t count) {
    return scratch(slot, sizeof(float) * (count + 16 * LANES));
}

#endif
