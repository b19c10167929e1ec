#include "search.h"

#include "scratch.h"

static const float MIN_COVERAGE = 1e-6f; /* of a source token, before the logarithm */

/* ---- cache and notes ---- */

/* Give an array [places, capacity, size] another capacity. */
static int resize(void **array, int places, size_t old_bytes, size_t new_bytes) {
    char *resized = malloc(new_bytes * (size_t)places + 1);
    if (!resized) return 0;
    for (int p = 0; p < places && *array; p++)
        memcpy(resized + new_bytes * (size_t)p, (char *)*array + old_bytes * (size_t)p, old_bytes);
    free(*array);
    *array = resized;
    return 1;
}

/* `capacity` slots for every sentence. */
static int set_capacity(Search *s, int capacity) {
    const Task *task = s->task;
    const Stack *stack = task->decoder;
    const size_t old = (size_t)s->capacity, new = (size_t)capacity;
    char *is_used = realloc(s->is_used, new);
    if (!is_used) return 0;
    s->is_used = is_used;
#define RESIZE(array, size) resize((void **)&(array), s->num_places, old * (size), new * (size))
    for (int l = 0; l < stack->num_layers; l++) {
        const size_t size = sizeof(float) * (size_t)stack->layers[l].heads * stack->head_dim;
        if (!RESIZE(s->caches[l].keys, size) || !RESIZE(s->caches[l].values, size)) return 0;
    }
    if (needs_attention(task) && !RESIZE(s->notes.attention, sizeof(float) * (size_t)task->max_source_length)) return 0;
    const size_t alternatives = sizeof(float) * (size_t)task->num_alternatives;
    if (alternatives && (!RESIZE(s->notes.alternatives, alternatives) ||
                         !RESIZE(s->notes.alternative_log_probs, alternatives)))
        return 0;
#undef RESIZE
    s->capacity = capacity;
    return 1;
}

int allocate_cache(Search *s) {
    const Stack *stack = s->task->decoder;
    const size_t layers = (size_t)stack->num_layers, padded = (size_t)padded_length(s->task->max_source_length);
    s->source_capacity = (int)padded;
    s->caches = calloc(layers, sizeof(Cache));
    s->memories = calloc(layers, sizeof(Memory));
    if (!s->caches || !s->memories) return 0;
    for (size_t l = 0; l < layers; l++) {
        const size_t size = padded * (size_t)s->num_places * stack->layers[l].source_heads * stack->head_dim;
        s->memories[l].keys = calloc(size + 1, sizeof(float));
        s->memories[l].values = calloc(size + 1, sizeof(float));
        if (!s->memories[l].keys || !s->memories[l].values) return 0;
    }
    return set_capacity(s, 32 + 8 * s->task->width); /* a beam of captions rarely needs more */
}

void free_cache(Search *s) {
    for (int l = 0; l < s->task->decoder->num_layers; l++) {
        if (s->caches) free(s->caches[l].keys), free(s->caches[l].values);
        if (s->memories) free(s->memories[l].keys), free(s->memories[l].values);
    }
    free(s->caches), free(s->memories), free(s->is_used);
    free(s->notes.attention), free(s->notes.alternatives), free(s->notes.alternative_log_probs);
}

/* The lowest slots that no hypothesis uses any more. Hypotheses share the slots of a common prefix, so that reordering a
   beam copies lists of slots, but no keys and values. If "a b c" had slots 0 1 2 and "a b d" slots 0 1 3, and both new
   hypotheses continue the second one, slot 2 is free again:

       a b d e    0 1 3 2
       a b d f    0 1 3 4

   Without lists of slots there is one hypothesis, whose tokens have the slots 0, 1, 2 ... */
int assign_slots(Search *s, const Active *a, int first) {
    if (!s->now.slots) return a->length < s->capacity || set_capacity(s, 2 * s->capacity);
    memset(s->is_used, 0, (size_t)s->capacity);
    for (int r = first; r < first + a->width; r++)
        for (int t = 0; t < a->length; t++) s->is_used[s->now.slots[(size_t)r * s->stride + t]] = 1;
    for (int r = first, slot = 0; r < first + a->width; r++) {
        while (slot < s->capacity && s->is_used[slot]) slot++;
        if (slot == s->capacity) {
            if (!set_capacity(s, 2 * s->capacity)) return 0;
            memset(s->is_used + slot, 0, (size_t)(s->capacity - slot));
        }
        s->now.slots[(size_t)r * s->stride + a->length] = slot++;
    }
    return 1;
}

/* Index of the token at position t of a hypothesis among those of all places in the cache. */
INLINE size_t cached_token(const Search *s, const Active *a, int row, int t) {
    const int slot = s->now.slots ? s->now.slots[(size_t)row * s->stride + t] : t;
    return (size_t)a->place * s->capacity + (size_t)slot;
}

void note_attention(Search *s, const Active *a, int row, const float *head_attention) {
    const Task *task = s->task;
    const Stack *stack = task->decoder;
    const int first = stack->alignment_head < 0 ? 0 : stack->alignment_head;
    const int end = stack->alignment_head < 0 ? stack->layers[stack->alignment_layer].source_heads : first + 1;
    const int length = task->source_lengths[a->sentence], stride = task->max_source_length;
    float *noted = s->notes.attention + cached_token(s, a, row, a->length) * (size_t)stride;
    for (int i = 0; i < length; i++) {
        float sum = 0;
        for (int h = first; h < end; h++) sum += head_attention[(size_t)h * stride + i];
        noted[i] = sum / (float)(end - first);
    }
}

int note_alternatives(Search *s, const Active *a, int row, const Logits *logits) {
    const int count = s->task->num_alternatives;
    const size_t first = cached_token(s, a, row, a->length) * (size_t)count;
    Ranking ranking = {.best = scratch(RANKED_CANDIDATES, sizeof(Candidate) * (size_t)count), .size = count};
    if (!ranking.best) return 0;
    rank_row(&ranking, logits, 0, row);
    for (int k = 0; k < count; k++) {
        const int is_there = k < ranking.count;
        s->notes.alternatives[first + k] = is_there ? ranking.best[k].token : -1;
        s->notes.alternative_log_probs[first + k] = is_there ? ranking.best[k].logit - s->normaliser[row] : -INFINITY;
    }
    return 1;
}

/* ---- hypotheses ---- */

void extend(Search *s, const Active *a, const Extension *extension, int to) {
    const size_t from = (size_t)extension->row * s->stride, at = (size_t)to * s->stride, length = (size_t)a->length;
    memcpy(s->next.tokens + at, s->now.tokens + from, sizeof(int32_t) * length);
    memcpy(s->next.token_log_probs + at, s->now.token_log_probs + from, sizeof(float) * length);
    if (s->now.slots) memcpy(s->next.slots + at, s->now.slots + from, sizeof(int32_t) * (length + 1));
    s->next.tokens[at + length] = extension->token;
    s->next.token_log_probs[at + length] = extension->token_log_prob;
    s->next.log_prob[to] = extension->log_prob;
}

static void copy_notes(Search *s, const Active *a, int row, size_t result) {
    Task *task = s->task;
    const size_t source_length = (size_t)task->source_lengths[a->sentence], k = (size_t)task->num_alternatives;
    const size_t rank = result - (size_t)a->sentence * task->n_best;
    for (int t = 0; t <= a->length; t++) {
        const size_t token = cached_token(s, a, row, t);
        if (task->attention && t < a->length) {
            const size_t first = (size_t)task->first_attention[a->sentence];
            memcpy(task->attention + first + (rank * task->max_lengths[a->sentence] + t) * source_length,
                   s->notes.attention + token * task->max_source_length, sizeof(float) * source_length);
        }
        const size_t to = (result * ((size_t)task->max_length + 1) + t) * k;
        if (!k) continue;
        memcpy(task->alternatives + to, s->notes.alternatives + token * k, sizeof(int32_t) * k);
        memcpy(task->alternative_log_probs + to, s->notes.alternative_log_probs + token * k, sizeof(float) * k);
    }
}

/* Score of an ending by the log-probabilities of the model, before constraints. */
static float model_score(const Search *s, const Active *a, const Ending *ending) {
    double sum = ending->token_log_prob;
    for (int t = 0; t < a->length; t++) sum += s->now.token_log_probs[(size_t)ending->row * s->stride + t];
    return score_of(s->task, (float)sum, a->length + 1);
}

/* Weight times the sum over source tokens of log(min(attention received, 1)), as mtkit/search/beam.py. */
static float coverage_penalty(const Search *s, const Active *a, int row) {
    const Task *task = s->task;
    float sum = 0;
    for (int i = 0; i < task->source_lengths[a->sentence]; i++) {
        float received = 0;
        for (int t = 0; t <= a->length; t++)
            received += s->notes.attention[cached_token(s, a, row, t) * (size_t)task->max_source_length + i];
        sum += logf(fminf(fmaxf(received, MIN_COVERAGE), 1));
    }
    return task->coverage_weight * sum;
}

void add_result(Search *s, const Active *a, const Ending *ending) {
    Task *task = s->task;
    float score = task->is_single_path ? model_score(s, a, ending) : score_of(task, ending->log_prob, a->length + 1);
    if (task->coverage_weight > 0) score += coverage_penalty(s, a, ending->row);
    const size_t first = (size_t)a->sentence * task->n_best, length = (size_t)task->max_length;
    const size_t k = (size_t)task->num_alternatives;
    int32_t *count = task->counts + a->sentence;
    int rank = *count;
    while (rank > 0 && score > task->scores[first + rank - 1]) rank--;
    if (rank == task->n_best) return;
    if (*count < task->n_best) ++*count;
    const size_t to = first + rank, moved = (size_t)(*count - 1 - rank);
#define SHIFT(array, at, size) \
    if (moved) memmove((array) + ((at) + 1) * (size), (array) + (at) * (size), sizeof *(array) * moved * (size))
    SHIFT(task->tokens, to, length);
    SHIFT(task->log_probs, to, length + 1);
    SHIFT(task->scores, to, 1);
    SHIFT(task->lengths, to, 1);
    SHIFT(task->is_finished, to, 1);
    if (k) {
        SHIFT(task->alternatives, to, (length + 1) * k);
        SHIFT(task->alternative_log_probs, to, (length + 1) * k);
    }
    if (task->attention) {
        const size_t size = (size_t)task->max_lengths[a->sentence] * task->source_lengths[a->sentence];
        SHIFT(task->attention + task->first_attention[a->sentence], (size_t)rank, size);
    }
#undef SHIFT
    const size_t from = (size_t)ending->row * s->stride;
    memcpy(task->tokens + to * length, s->now.tokens + from, sizeof(int32_t) * (size_t)a->length);
    memcpy(task->log_probs + to * (length + 1), s->now.token_log_probs + from, sizeof(float) * (size_t)a->length);
    task->log_probs[to * (length + 1) + a->length] = ending->token_log_prob;
    task->scores[to] = score;
    task->lengths[to] = a->length;
    task->is_finished[to] = ending->is_finished;
    if (k || task->attention) copy_notes(s, a, ending->row, to);
}
