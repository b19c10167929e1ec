#include "search.h"

#include "scratch.h"

/* Take sentences from the task while there is a place for them. */
static int admit(Search *s) {
    Task *task = s->task;
    while (s->num_free && !s->is_exhausted) {
        const int sentence = __atomic_fetch_add(&task->next_sentence, 1, __ATOMIC_RELAXED);
        if (sentence >= task->num_sentences) {
            s->is_exhausted = 1;
            break;
        }
        const int place = s->free_places[--s->num_free];
        const float *states = task->states + (size_t)task->first_states[sentence] * task->decoder->d_model;
        if (!project_memory(task->decoder, states, task->source_lengths[sentence], (int64_t)place * s->source_capacity,
                            s->memories))
            return 0;
        s->now.log_prob[s->num_rows++] = 0;
        s->active[s->num_active++] = (Active){.sentence = sentence, .place = place, .width = 1};
    }
    return 1;
}

/* The decoder's states of the new token of every hypothesis, in s->x. */
static int decode_step(Search *s) {
    const Task *task = s->task;
    const int width = task->decoder->d_model;
    for (int n = 0, row = 0; n < s->num_active; n++) {
        const Active *a = s->active + n;
        if (!assign_slots(s, a, row)) return 0;
        for (int i = 0; i < a->width; i++, row++) {
            const int last = a->length ? s->now.tokens[(size_t)row * s->stride + a->length - 1] : task->bos;
            const float *embedding = task->embeddings + (size_t)last * width;
            float *x = s->x + (size_t)row * width;
            for (int d = 0; d < width; d++) x[d] = embedding[d] * task->embedding_scale;
            if (task->positions) add_scaled(x, 1, task->positions + (size_t)a->length * width, width);
            s->active_of[row] = n;
            s->rows[row] = (Row){.slots = s->now.slots ? s->now.slots + (size_t)row * s->stride : NULL,
                                 .first_source = (int64_t)a->place * s->source_capacity, .place = a->place,
                                 .length = a->length + 1, .source_length = task->source_lengths[a->sentence]};
        }
    }
    const Step step = {.rows = s->rows, .rotations = task->rotations, .attention = s->head_attention,
                       .capacity = s->capacity, .source_length = task->max_source_length};
    if (!decode(task->decoder, s->caches, s->memories, &step, s->x, s->num_rows)) return 0;
    const size_t heads = (size_t)task->decoder->layers[task->decoder->alignment_layer].source_heads;
    for (int r = 0; r < s->num_rows && s->head_attention; r++)
        note_attention(s, s->active + s->active_of[r], r, s->head_attention + r * heads * task->max_source_length);
    return 1;
}

static Hypothesis hypothesis_of(const Search *s, int row, float *model_logits) {
    const Active *a = s->active + s->active_of[row];
    return (Hypothesis){s->now.tokens + (size_t)row * s->stride, a->sentence, a->length, s->normaliser[row], model_logits};
}

float *restrict_logits(Search *s, int row, Logits *logits, int with_end) {
    const Task *task = s->task;
    const Active *a = s->active + s->active_of[row];
    float *model_logits = scratch_floats(MODEL_LOGITS, (size_t)a->length + 1);
    if (!model_logits) return NULL;
    Hypothesis hypothesis = hypothesis_of(s, row, model_logits);
    if (task->constraints && !constrain(&s->constrainer, &hypothesis, logits)) return NULL;
    const int count = task->num_banned - with_end; /* the end is the last one */
    const int forced = task->constraints ? forced_token(task->constraints, a->sentence, a->length) : -1;
    for (int e = 0; e < count; e++)
        if (task->banned[e] != forced) logits->values[task->banned[e]] = -INFINITY;
    for (int e = 0; e < count; e++) update_maximum(logits, task->banned[e]);
    return model_logits;
}

float model_log_prob(const Search *s, int row, float *model_logits, int token, float logit) {
    const Hypothesis hypothesis = hypothesis_of(s, row, model_logits);
    if (s->task->constraints) logit = unconstrained_logit(s->task->constraints, &hypothesis, token, logit);
    return logit - s->normaliser[row];
}

/* The logits of a row, which exist only during this call. */
static int visit_row(void *context, int row, Logits *logits) {
    Search *s = context;
    s->normaliser[row] = log_sum_exp(logits);
    s->end_logit[row] = logits->values[end_of(s->task)];
    if (s->task->num_alternatives && !note_alternatives(s, s->active + s->active_of[row], row, logits)) return 0;
    if (s->task->pruned) {
        s->best_log_probs[row] = logits->values[s->best_tokens[row]] - s->normaliser[row];
        return 1;
    }
    return s->task->sampling ? sample_tokens(s, row, logits) : rank_extensions(s, row, logits);
}

/* The next tokens of all hypotheses. */
static int choose_tokens(Search *s) {
    if (s->task->pruned && !choose_most_probable(s)) return 0;
    if (s->task->pruned && !s->task->with_log_probs) return 1;
    memset(s->num_candidates, 0, sizeof(int32_t) * (size_t)s->num_active);
    return visit_logits(s->task->output, s->x, s->num_rows, visit_row, s);
}

/* One position of every sentence in work. */
static int advance(Search *s) {
    const Task *task = s->task;
    if (!admit(s)) return 0;
    if (task->pruned && !task->with_log_probs) end_at_limit(s);
    if (!s->num_active) return 1;
    if (!decode_step(s) || !choose_tokens(s)) return 0;
    int kept = 0, row = 0, to = 0;
    for (int n = 0; n < s->num_active; n++) {
        Active a = s->active[n];
        const int first = row;
        row += a.width;
        const int is_done = task->pruned     ? advance_greedily(s, &a, first, to)
                            : task->sampling ? advance_paths(s, &a, first, to)
                                             : advance_beam(s, &a, first, to);
        if (is_done) {
            s->free_places[s->num_free++] = a.place;
        } else {
            to += a.width;
            s->active[kept++] = a;
        }
    }
    s->num_active = kept;
    s->num_rows = to;
    const Hypotheses next = s->next;
    s->next = s->now;
    s->now = next;
    return 1;
}

/* ---- functions that Python calls ---- */

void mtkit_search_end(Search *s) {
    if (!s) return;
    free_cache(s);
    end_constraints(&s->constrainer);
    for (int i = 0; i < 2; i++) {
        Hypotheses *h = i ? &s->next : &s->now;
        free(h->tokens), free(h->slots), free(h->token_log_probs), free(h->log_prob), free(h->paths);
    }
    free(s->active), free(s->free_places), free(s->x), free(s->head_attention);
    free(s->active_of), free(s->rows), free(s->normaliser), free(s->end_logit);
    free(s->candidates), free(s->num_candidates), free(s->best_tokens), free(s->best_logits), free(s->best_log_probs);
    free(s);
}

/* A search with this many sentences in work at once; NULL if memory is exhausted. */
Search *mtkit_search_begin(Task *task, int places) {
    const Stack *stack = task->decoder;
    const size_t rows = (size_t)places * task->width;
    Search *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->task = task;
    s->num_places = s->num_free = places;
    s->stride = task->max_length + 1; /* the token that begins a sentence has a slot too */
    int is_complete = 1;
#define NEW(array, count) is_complete &= ((array) = calloc((count), sizeof *(array))) != NULL
    NEW(s->active, places);
    NEW(s->free_places, places);
    NEW(s->num_candidates, places);
    NEW(s->active_of, rows);
    NEW(s->rows, rows);
    NEW(s->candidates, rows);
    NEW(s->normaliser, rows);
    NEW(s->end_logit, rows);
    NEW(s->best_tokens, rows);
    NEW(s->best_logits, rows);
    NEW(s->best_log_probs, rows);
    NEW(s->x, rows * stack->d_model);
    if (needs_attention(task))
        NEW(s->head_attention, rows * stack->layers[stack->alignment_layer].source_heads * task->max_source_length);
    for (int i = 0; i < 2; i++) {
        Hypotheses *h = i ? &s->next : &s->now;
        NEW(h->tokens, rows * s->stride);
        NEW(h->token_log_probs, rows * s->stride);
        NEW(h->log_prob, rows);
        NEW(h->paths, rows);
        if (!task->pruned) NEW(h->slots, rows * s->stride);
    }
#undef NEW
    if (!is_complete || !allocate_cache(s) || !begin_constraints(&s->constrainer, task->constraints)) {
        mtkit_search_end(s);
        return NULL;
    }
    for (int p = 0; p < places; p++) s->free_places[p] = p;
    return s;
}

/* Compute up to `steps` positions. Returns 1 if sentences remain, 0 after the last one, -1 if memory is exhausted. */
int mtkit_search_run(Search *s, int steps) {
    for (int i = 0; i < steps; i++) {
        if (!advance(s)) return -1;
        if (!s->num_active && s->is_exhausted) return 0;
    }
    return 1;
}
