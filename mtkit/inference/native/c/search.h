/* Search for the translations of a batch: beam search, and greedy search without log-probabilities.

   A limited number of sentences is in work at once. When the search of one ends, the next one takes its place, so that
   every step has as many hypotheses as possible, and the memory does not grow with the batch (continuous batching).
   Each sentence has the same result in any company, since a row of a step has the same bits in any batch. Threads may
   share a task: each has a search of its own, and takes the next sentence from the task.

   The rules are those of mtkit/search/beam/beam.py and mtkit/search/single_path.py, where they are explained. */

/* What is to be translated, how, and where the results go; Python owns the memory. L is `max_length`. */
typedef struct {
    const Stack *decoder;
    const Linear *output;
    const Pruned *pruned;     /* of the same weights: greedy search; NULL: beam search, also of one hypothesis */
    const float *embeddings;  /* [V, D] */
    const float *positions;   /* [L + 1, D], added to embeddings; or NULL */
    const float *rotations;   /* [L + 1, K] cos and sin; or NULL */
    const int32_t *ids;       /* [C] token of each output; NULL: output c is token c */
    const int32_t *excluded;  /* outputs that extend no hypothesis; the last one is the end of sentence */
    const float *divisors, *summands; /* [L + 2]: score = log-probability / divisors[n] + summands[n] for n tokens, the
                                         end included */
    const float *states;      /* [R, D] encoder states */
    const int64_t *first_states; /* [B] row of the first state of each sentence */
    const int32_t *source_lengths, *max_lengths, *min_lengths; /* [B] */
    int32_t *tokens;          /* [B, n_best, L]; results, best first */
    float *log_probs;         /* [B, n_best, L + 1] of each token and of the end */
    float *scores;            /* [B, n_best] */
    int32_t *lengths;         /* [B, n_best] */
    int32_t *is_finished;     /* [B, n_best] 0: the maximum length forced the end */
    int32_t *counts;          /* [B] number of results, 0 before; FAILED: not finite */
    float embedding_scale, enough_ends; /* patience times width */
    int32_t num_excluded, bos, width, n_best, num_sentences, max_source_length, max_length;
    int32_t next_sentence;    /* the first one that no search has taken yet */
} Task;

enum { FAILED = -1 };

/* A sentence in work. */
typedef struct {
    int32_t sentence;      /* index in the task */
    int32_t place;         /* index in caches and memories: `storage` of a Step */
    int32_t width, length; /* hypotheses, and tokens of each */
    int32_t ended;         /* hypotheses that have ended, also those that are not among the n best */
} Active;

/* Hypotheses [rows] of the sentences in work, one sentence after another. */
typedef struct {
    int32_t *tokens, *slots; /* [rows, stride]; slots of the tokens that the decoder has read, in the cache */
    float *token_log_probs;  /* [rows, stride] */
    float *log_prob;         /* [rows] */
} Hypotheses;

typedef struct {
    Task *task;
    int num_places, num_free, num_active, num_rows, stride, capacity, source_capacity, is_exhausted;
    Active *active;               /* [places] */
    int32_t *free_places;         /* [places], the first num_free of them */
    Hypotheses now, next;         /* `next` is written while `now` is read */
    int32_t *sentences, *lengths, *storage, *source_lengths; /* see Step */
    int64_t *offsets;
    Cache *caches;                /* [layers] */
    Memory *memories;             /* [layers] */
    char *is_used;                /* [capacity] slots of a sentence */
    float *x;                     /* [rows, D] */
    float *normaliser, *end_logit; /* [rows]; in greedy search the logit of the best token */
    Candidate *candidates;        /* [places, W] */
    int32_t *num_candidates;      /* [places] */
    int64_t *columns;             /* [rows], of greedy search */
} Search;

static float score_of(const Task *task, float log_prob, int length) {
    return log_prob / task->divisors[length] + task->summands[length];
}

INLINE int token_of(const Task *task, int column) { return task->ids ? task->ids[column] : column; }
INLINE int end_of(const Task *task) { return task->excluded[task->num_excluded - 1]; }

/* ---- cache ---- */

/* Twice the slots for every sentence. Returns 0 if memory is exhausted, as do all functions below with a result. */
static int grow_cache(Search *s) {
    const Stack *stack = s->task->decoder;
    const int capacity = 2 * s->capacity;
    char *is_used = realloc(s->is_used, (size_t)capacity);
    if (!is_used) return 0;
    memset(is_used + s->capacity, 0, (size_t)(capacity - s->capacity));
    s->is_used = is_used;
    for (int l = 0; l < stack->num_layers; l++)
        for (int i = 0; i < 2; i++) {
            float **part = i ? &s->caches[l].values : &s->caches[l].keys;
            const size_t own = 4 * (size_t)stack->layers[l].heads * stack->head_dim;
            char *grown = malloc(own * capacity * s->num_places), *old = (char *)*part;
            if (!grown) return 0;
            for (int p = 0; p < s->num_places; p++)
                memcpy(grown + own * capacity * p, old + own * s->capacity * p, own * s->capacity);
            free(old);
            *part = (float *)grown;
        }
    s->capacity = capacity;
    return 1;
}

/* A slot for the new token of each hypothesis of a sentence: the lowest ones that no hypothesis uses any more.

   Hypotheses share the slots of a common prefix, so that reordering a beam copies lists of slots, but no keys and
   values. If "a b c" had slots 0 1 2 and "a b d" slots 0 1 3, and both new hypotheses continue the second one, slot 2
   is free again:

       a b d e    0 1 3 2
       a b d f    0 1 3 4 */
static int assign_slots(Search *s, const Active *a, int first) {
    memset(s->is_used, 0, (size_t)s->capacity);
    for (int r = first; r < first + a->width; r++)
        for (int t = 0; t < a->length; t++) s->is_used[s->now.slots[(size_t)r * s->stride + t]] = 1;
    for (int r = first, slot = 0; r < first + a->width; r++) {
        while (slot < s->capacity && s->is_used[slot]) slot++;
        if (slot == s->capacity && !grow_cache(s)) return 0;
        s->now.slots[(size_t)r * s->stride + a->length] = slot++;
    }
    return 1;
}

/* ---- results ---- */

/* Put a finished hypothesis into the n best of its sentence; among equals those that ended first are better.

   `row` is the hypothesis without its end, `end_log_prob` the log-probability of the end (nats; NaN: not computed). */
static void add_result(Search *s, const Active *a, int row, float end_log_prob, float score, int is_finished) {
    Task *task = s->task;
    const size_t first = (size_t)a->sentence * task->n_best, length = task->max_length;
    int32_t *count = task->counts + a->sentence;
    int at = *count;
    while (at > 0 && score > task->scores[first + at - 1]) at--;
    if (at == task->n_best) return;
    if (*count < task->n_best) ++*count;
    const size_t to = first + at, moved = (size_t)(*count - 1 - at);
#define SHIFT(array, size) memmove(array + (to + 1) * (size), array + to * (size), sizeof *(array) * moved * (size))
    SHIFT(task->tokens, length);
    SHIFT(task->log_probs, length + 1);
    SHIFT(task->scores, 1);
    SHIFT(task->lengths, 1);
    SHIFT(task->is_finished, 1);
#undef SHIFT
    const size_t from = (size_t)row * s->stride, size = 4 * (size_t)a->length;
    memcpy(task->tokens + to * length, s->now.tokens + from, size);
    memcpy(task->log_probs + to * (length + 1), s->now.token_log_probs + from, size);
    task->log_probs[to * (length + 1) + a->length] = end_log_prob;
    task->scores[to] = score;
    task->lengths[to] = a->length;
    task->is_finished[to] = is_finished;
}

/* ---- one position of a sentence; `first` is its first row. Each returns whether the sentence is done ---- */

/* A hypothesis of the next position: the hypothesis `row` and a token. */
static void extend(Search *s, const Active *a, int row, int token, float token_log_prob, float log_prob, int to) {
    const size_t from = (size_t)row * s->stride, at = (size_t)to * s->stride, length = (size_t)a->length;
    memcpy(s->next.tokens + at, s->now.tokens + from, 4 * length);
    memcpy(s->next.token_log_probs + at, s->now.token_log_probs + from, 4 * length);
    if (s->now.slots) memcpy(s->next.slots + at, s->now.slots + from, 4 * (length + 1));
    s->next.tokens[at + length] = token;
    s->next.token_log_probs[at + length] = token_log_prob;
    s->next.log_prob[to] = log_prob;
}

/* Greedy search: append the most probable token, which has this logit. */
static int advance_greedily(Search *s, Active *a, int first, int column, float logit, int to) {
    const Task *task = s->task;
    if (column == end_of(task) || logit == -INFINITY) { /* -inf: no token is left, so that the end is forced */
        add_result(s, a, first, NAN, NAN, logit > -INFINITY);
        return 1;
    }
    if (!isfinite(logit)) {
        task->counts[a->sentence] = FAILED;
        return 1;
    }
    extend(s, a, first, token_of(task, column), NAN, NAN, to);
    a->length++;
    return 0;
}

/* End the hypotheses whose end of sentence is among the best; `best` [count] are the extensions, best first. */
static void end_hypotheses(Search *s, Active *a, int first, const Candidate *best, int count) {
    const Task *task = s->task;
    const int is_at_limit = a->length >= task->max_lengths[a->sentence];
    const int may_end = a->length >= task->min_lengths[a->sentence];
    int num_ends = 0;
    for (int r = first; r < first + a->width && may_end; r++) {
        const float own = s->end_logit[r] - s->normaliser[r], end = s->now.log_prob[r] + own;
        int better = 0;
        for (int k = 0; k < count; k++) better += best[k].total > end;
        for (int i = first; i < first + a->width; i++)
            better += s->now.log_prob[i] + (s->end_logit[i] - s->normaliser[i]) > end;
        if (better >= task->width || end == -INFINITY) continue;
        add_result(s, a, r, own, score_of(task, end, a->length + 1), !is_at_limit);
        num_ends++;
    }
    /* Every sentence gets a translation: where neither an extension nor an end is left, all hypotheses end. */
    for (int r = first; r < first + a->width && !count && !num_ends && !a->ended; r++) {
        const float own = s->end_logit[r] - s->normaliser[r];
        add_result(s, a, r, own, score_of(task, s->now.log_prob[r] + own, a->length + 1), 0);
    }
    a->ended += num_ends;
}

/* Whether no hypothesis can still enter the n best: enough have ended, or the bound of the score says so. */
static int cannot_improve(const Search *s, const Active *a, float best) {
    const Task *task = s->task;
    const int count = task->counts[a->sentence], max_length = task->max_lengths[a->sentence];
    if (a->ended && (float)a->ended >= task->enough_ends) return 1;
    if (count < task->n_best) return 0;
    const float bound = fmaxf(score_of(task, best, a->length + 2), score_of(task, best, max_length + 1));
    return bound <= task->scores[(size_t)a->sentence * task->n_best + count - 1];
}

/* Beam search: the `count` candidates of a sentence are its best extensions, whose hypotheses begin at row `to`. */
static int advance_beam(Search *s, Active *a, int first, Candidate *best, int count, int to) {
    const Task *task = s->task;
    for (int r = first; r < first + a->width; r++)
        if (!isfinite(s->normaliser[r])) {
            task->counts[a->sentence] = FAILED;
            return 1;
        }
    if (a->length >= task->max_lengths[a->sentence]) count = 0;
    /* `rank` compared logit + (log-probability of the hypothesis - normaliser). The written search adds in another
       order, so that near-ties may change places: sort by its sums. */
    for (int k = 0; k < count; k++) {
        Candidate one = best[k];
        one.value -= s->normaliser[one.row];
        one.total = s->now.log_prob[one.row] + one.value;
        int i = k;
        for (; i > 0 && one.total > best[i - 1].total; i--) best[i] = best[i - 1];
        best[i] = one;
    }
    end_hypotheses(s, a, first, best, count);
    if (!count || cannot_improve(s, a, best[0].total)) return 1;
    for (int k = 0; k < count; k++)
        extend(s, a, best[k].row, token_of(task, best[k].column), best[k].value, best[k].total, to + k);
    a->width = count;
    a->length++;
    return 0;
}

/* ---- all sentences in work ---- */

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

/* End the greedy search of sentences that have their maximum length: the model need not compute the end. */
static void end_at_limit(Search *s) {
    int kept = 0;
    for (int n = 0; n < s->num_active; n++) {
        const Active a = s->active[n];
        if (a.length >= s->task->max_lengths[a.sentence]) {
            add_result(s, &a, n, NAN, NAN, 0);
            s->free_places[s->num_free++] = a.place;
            continue;
        }
        const size_t from = (size_t)n * s->stride, to = (size_t)kept * s->stride;
        /* log-probabilities need no copy: greedy search without them has NaN for all */
        if (n > kept) memcpy(s->now.tokens + to, s->now.tokens + from, 4 * (size_t)a.length);
        s->active[kept++] = a;
    }
    s->num_active = s->num_rows = kept;
}

/* The decoder's states of the new token of every hypothesis, in s->x. */
static int decode_step(Search *s) {
    const Task *task = s->task;
    const int width = task->decoder->d_model;
    for (int n = 0, row = 0; n < s->num_active; n++) {
        const Active *a = s->active + n;
        s->storage[n] = a->place;
        s->lengths[n] = a->length + 1;
        s->source_lengths[n] = task->source_lengths[a->sentence];
        s->offsets[n] = (int64_t)a->place * s->source_capacity;
        if (s->now.slots ? !assign_slots(s, a, row) : a->length >= s->capacity && !grow_cache(s)) return 0;
        for (int i = 0; i < a->width; i++, row++) {
            const int last = a->length ? s->now.tokens[(size_t)row * s->stride + a->length - 1] : task->bos;
            const float *embedding = task->embeddings + (size_t)last * width;
            float *x = s->x + (size_t)row * width;
            for (int d = 0; d < width; d++) x[d] = embedding[d] * task->embedding_scale;
            if (task->positions) add_scaled(x, 1, task->positions + (size_t)a->length * width, width);
            s->sentences[row] = n;
        }
    }
    const Step step = {.sentences = s->sentences, .slots = s->now.slots, .lengths = s->lengths, .storage = s->storage,
                       .source_lengths = s->source_lengths, .offsets = s->offsets, .rotations = task->rotations,
                       .stride = s->stride, .capacity = s->capacity};
    return mtkit_decode(task->decoder, s->caches, s->memories, &step, s->x, 0, s->num_rows);
}

/* The most probable token of every hypothesis and its logit, in s->columns and s->end_logit. */
static int choose_greedily(Search *s) {
    const Task *task = s->task;
    const int num_banned = task->num_excluded - 1; /* the end of sentence is a token like others */
    if (!mtkit_most_probable(task->pruned, s->x, s->num_rows, task->excluded, num_banned, s->columns, s->end_logit))
        return 0;
    for (int r = 0; r < s->num_rows; r++)
        if (s->active[r].length < task->min_lengths[s->active[r].sentence] &&
            !mtkit_most_probable(task->pruned, s->x + (size_t)r * task->decoder->d_model, 1, task->excluded,
                                 task->num_excluded, s->columns + r, s->end_logit + r))
            return 0;
    return 1;
}

static int rank_extensions(Search *s) {
    const Task *task = s->task;
    memset(s->num_candidates, 0, sizeof(int32_t) * (size_t)s->num_active);
    return rank(task->output, s->x, s->num_rows, s->sentences, s->now.log_prob, task->excluded, task->num_excluded,
                end_of(task), task->width, s->candidates, s->num_candidates, s->normaliser, s->end_logit);
}

/* One position of every sentence in work. */
static int advance(Search *s) {
    const Task *task = s->task;
    if (!admit(s)) return 0;
    if (task->pruned) end_at_limit(s);
    if (!s->num_active) return 1;
    if (!decode_step(s) || !(task->pruned ? choose_greedily(s) : rank_extensions(s))) return 0;
    int kept = 0, row = 0, to = 0;
    for (int n = 0; n < s->num_active; n++) {
        Active a = s->active[n];
        const int first = row;
        row += a.width;
        const int is_done = task->pruned
                                ? advance_greedily(s, &a, first, (int)s->columns[first], s->end_logit[first], to)
                                : advance_beam(s, &a, first, s->candidates + (size_t)n * task->width,
                                               s->num_candidates[n], to);
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
    for (int l = 0; l < s->task->decoder->num_layers; l++) {
        if (s->caches) free(s->caches[l].keys), free(s->caches[l].values);
        if (s->memories) free(s->memories[l].keys), free(s->memories[l].values);
    }
    for (int i = 0; i < 2; i++) {
        Hypotheses *h = i ? &s->next : &s->now;
        free(h->tokens), free(h->slots), free(h->token_log_probs), free(h->log_prob);
    }
    free(s->active), free(s->free_places), free(s->caches), free(s->memories), free(s->is_used), free(s->x);
    free(s->sentences), free(s->lengths), free(s->storage), free(s->source_lengths), free(s->offsets);
    free(s->normaliser), free(s->end_logit), free(s->candidates), free(s->num_candidates), free(s->columns);
    free(s);
}

/* A search with this many sentences in work at once; NULL if memory is exhausted. */
Search *mtkit_search_begin(Task *task, int places) {
    const Stack *stack = task->decoder;
    const size_t rows = (size_t)places * task->width, layers = (size_t)stack->num_layers;
    Search *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->task = task;
    s->num_places = s->num_free = places;
    s->stride = task->max_length + 1; /* the token that begins a sentence has a slot too */
    s->capacity = 32 + 8 * task->width; /* a beam of captions rarely needs more */
    s->source_capacity = padded_length(task->max_source_length);
    int is_complete = 1;
#define NEW(array, count) is_complete &= ((array) = calloc((count), sizeof *(array))) != NULL
    NEW(s->active, places);
    NEW(s->free_places, places);
    NEW(s->lengths, places);
    NEW(s->storage, places);
    NEW(s->source_lengths, places);
    NEW(s->offsets, places);
    NEW(s->num_candidates, places);
    NEW(s->sentences, rows);
    NEW(s->candidates, rows);
    NEW(s->normaliser, rows);
    NEW(s->end_logit, rows);
    NEW(s->columns, rows);
    NEW(s->x, rows * stack->d_model);
    NEW(s->is_used, s->capacity);
    for (int i = 0; i < 2; i++) {
        Hypotheses *h = i ? &s->next : &s->now;
        NEW(h->tokens, rows * s->stride);
        NEW(h->token_log_probs, rows * s->stride);
        NEW(h->log_prob, rows);
        if (!task->pruned) NEW(h->slots, rows * s->stride);
    }
    NEW(s->caches, layers);
    NEW(s->memories, layers);
    for (size_t l = 0; l < layers && s->caches && s->memories; l++) {
        const size_t cached = (size_t)s->capacity * places * stack->layers[l].heads * stack->head_dim;
        const size_t source = (size_t)s->source_capacity * places * stack->layers[l].source_heads * stack->head_dim;
        NEW(s->caches[l].keys, cached);
        NEW(s->caches[l].values, cached);
        NEW(s->memories[l].keys, source);
        NEW(s->memories[l].values, source);
    }
#undef NEW
    if (!is_complete) {
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
