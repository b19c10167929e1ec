/* Softmax of the loss and attention of training, each in one pass over its rows.

   Numbers are float32 or bfloat16 in memory and float32 in between. */

#include "scratch.h"
#include "training.h"

INLINE void store_number(void *data, int is_bfloat16, int64_t i, Floats v) {
    if (is_bfloat16)
        *(UnalignedHalves *)((Half *)data + i) = to_halves(v);
    else
        store((float *)data + i, v);
}

/* `count` numbers as floats, times a factor, then zeros up to a multiple of LANES. */
static void read_row(const void *data, int is_bfloat16, int64_t first, int count, float factor, float *out) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) store(out + i, load_number(data, is_bfloat16, first + i) * factor);
    if (i == count) return;
    store(out + i, splat(0));
    for (; i < count; i++) out[i] = number_at(data, is_bfloat16, first + i) * factor;
}

static void write_row(void *data, int is_bfloat16, int64_t first, int count, const float *x) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) store_number(data, is_bfloat16, first + i, load(x + i));
    for (; i < count; i++)
        if (is_bfloat16)
            ((Half *)data)[first + i] = to_half(x[i]);
        else
            ((float *)data)[first + i] = x[i];
}

/* x <- e^(x - max x), of `count` numbers whose row is padded to a multiple of LANES; the padding becomes 0. */
INLINE float exponentials(float *x, int count, float *maximum) {
    const int padded = (count + LANES - 1) / LANES * LANES;
    for (int i = count; i < padded; i++) x[i] = -INFINITY;
    Floats largest = load(x), sum = splat(0);
    for (int i = LANES; i < padded; i += LANES) largest = larger(largest, load(x + i));
    *maximum = largest_of(largest);
    for (int i = 0; i < padded; i += LANES) {
        const Floats difference = load(x + i) - *maximum;
        const Floats y = select_floats(difference < -87.0f, splat(0), exponential_of_negative(difference));
        store(x + i, y);
        sum += y;
    }
    return sum_of(sum);
}

static void softmax_row(const void *context, int row) {
    const SoftmaxRows *s = context;
    float *x = scratch(LOSS_ROW, sizeof(float) * ((size_t)s->columns + 2 * LANES));
    if (!x) {
        __atomic_store_n(s->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const int64_t first = (int64_t)row * s->columns;
    read_row(s->logits, s->is_bfloat16, first, s->columns, 1, x);
    if (s->bias) {
        int i = 0;
        for (; i + LANES <= s->columns; i += LANES) store(x + i, load(x + i) + load(s->bias + i));
        for (; i < s->columns; i++) x[i] += s->bias[i];
    }
    s->target_logit[row] = x[s->target[row]];
    const float norm = exponentials(x, s->columns, s->maximum + row), factor = 1 / norm;
    s->norm[row] = norm;
    for (int i = 0; i < s->columns; i += LANES) store(x + i, load(x + i) * factor);
    write_row(s->logits, s->is_bfloat16, first, s->columns, x);
}

int mtkit_softmax_rows(const SoftmaxRows *rows, const Threads *threads) {
    run_tasks(threads, rows->rows, softmax_row, rows);
    return *rows->failed;
}

/* c [rows, columns] = a b: b [inner, columns] has rows of b_stride floats; columns are a multiple of LANES. Element (r, k)
   of a is at a[r * a_row + k * a_column]. */
INLINE void product_of_rows(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_stride, float *c,
                            int64_t c_stride, int inner, int columns, const int rows) {
    int j = 0;
    for (; j + 2 * LANES <= columns; j += 2 * LANES) {
        Floats acc[4][2];
        UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = splat(0);
        for (int k = 0; k < inner; k++) {
            const Floats b0 = load(b + k * b_stride + j), b1 = load(b + k * b_stride + j + LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                const float x = a[r * a_row + k * a_column];
                acc[r][0] += x * b0;
                acc[r][1] += x * b1;
            }
        }
        for (int r = 0; r < rows; r++) store(c + r * c_stride + j, acc[r][0]), store(c + r * c_stride + j + LANES, acc[r][1]);
    }
    for (; j < columns; j += LANES) {
        Floats acc[4];
        UNROLL for (int r = 0; r < rows; r++) acc[r] = splat(0);
        for (int k = 0; k < inner; k++) {
            const Floats b0 = load(b + k * b_stride + j);
            UNROLL for (int r = 0; r < rows; r++) acc[r] += a[r * a_row + k * a_column] * b0;
        }
        for (int r = 0; r < rows; r++) store(c + r * c_stride + j, acc[r]);
    }
}

static void small_product(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_stride, float *c,
                          int64_t c_stride, int rows, int inner, int columns) {
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        product_of_rows(a + r * a_row, a_row, a_column, b, b_stride, c + r * c_stride, c_stride, inner, columns, 4);
    for (; r < rows; r++)
        product_of_rows(a + r * a_row, a_row, a_column, b, b_stride, c + r * c_stride, c_stride, inner, columns, 1);
}

/* One head of one sentence, as floats. */
typedef struct {
    float *q, *k, *v, *turned, *weights, *out, *grad, *grad_weights;
    int padded; /* keys, rounded up to a multiple of LANES */
} Head;

/* Memory for a head; 0 if there is none. */
static int open_head(const TrainedAttention *t, Head *h) {
    h->padded = (t->keys + LANES - 1) / LANES * LANES;
    const size_t q = (size_t)t->queries * t->width, k = (size_t)h->padded * t->width, w = (size_t)t->queries * h->padded;
    float *memory = scratch_floats(TRAINED_HEAD, 3 * q + 3 * k + 2 * w);
    if (!memory) {
        __atomic_store_n(t->failed, 1, __ATOMIC_RELAXED);
        return 0;
    }
    *h = (Head){.q = memory, .out = memory + q, .grad = memory + 2 * q, .k = memory + 3 * q, .v = memory + 3 * q + k,
                .turned = memory + 3 * q + 2 * k, .weights = memory + 3 * q + 3 * k,
                .grad_weights = memory + 3 * q + 3 * k + w, .padded = h->padded};
    return 1;
}

/* The rows of a head, times a factor; those of the next task are requested from memory meanwhile. */
static void read_heads(const TrainedAttention *t, const Heads *x, int task, int rows, float factor, float *out) {
    const int size = t->is_bfloat16 ? sizeof(Half) : sizeof(float), next = task + 1 < t->sentences * t->heads ? task + 1 : task;
    const int64_t first = task / t->heads * x->sentence_stride + task % t->heads * x->head_stride;
    const char *soon = (const char *)x->data + size * (next / t->heads * x->sentence_stride + next % t->heads * x->head_stride);
    for (int i = 0; i < rows; i++) {
        for (int byte = 0; byte < size * t->width; byte += 64) __builtin_prefetch(soon + size * i * x->token_stride + byte);
        read_row(x->data, t->is_bfloat16, first + i * x->token_stride, t->width, factor, out + i * t->width);
    }
}

static void write_heads(const TrainedAttention *t, const Heads *x, int sentence, int head, int rows, const float *y) {
    const int64_t first = sentence * x->sentence_stride + head * x->head_stride;
    for (int i = 0; i < rows; i++)
        write_row(x->data, t->is_bfloat16, first + i * x->token_stride, t->width, y + i * t->width);
}

/* weights of a query <- kept weights, scaled */
static void drop(const TrainedAttention *t, int64_t first, float *weights) {
    if (!t->random) return;
    for (int j = 0; j < t->keys; j++) weights[j] *= t->random[first + j] >= t->drop_levels ? t->keep_scale : 0;
}

static void attend_head(const void *context, int task) {
    const TrainedAttention *t = context;
    const int sentence = task / t->heads, head = task % t->heads;
    Head h;
    if (!open_head(t, &h)) return;
    read_heads(t, &t->q, task, t->queries, t->scale, h.q);
    read_heads(t, &t->k, task, t->keys, 1, h.k);
    read_heads(t, &t->v, task, t->keys, 1, h.v);
    transpose(h.k, t->width, t->keys, t->width, h.turned, h.padded);
    small_product(h.q, t->width, 1, h.turned, h.padded, h.weights, h.padded, t->queries, t->width, h.padded);
    for (int i = 0; i < t->queries; i++) {
        float *w = h.weights + i * h.padded, maximum;
        const int64_t first = ((int64_t)task * t->queries + i) * t->keys;
        int sees = !t->visible;
        if (t->visible) {
            const uint8_t *visible = t->visible + sentence * t->visible_sentence + i * t->visible_query;
            for (int j = 0; j < t->keys; j++) {
                sees |= visible[j];
                if (!visible[j]) w[j] = -INFINITY;
            }
        }
        if (sees) {
            const float factor = 1 / exponentials(w, t->keys, &maximum);
            for (int j = 0; j < h.padded; j += LANES) store(w + j, load(w + j) * factor);
        } else {
            memset(w, 0, sizeof(float) * (size_t)h.padded);
        }
        write_row(t->weights, t->is_bfloat16, first, t->keys, w);
        drop(t, first, w);
    }
    small_product(h.weights, h.padded, 1, h.v, t->width, h.out, t->width, t->queries, t->keys, t->width);
    write_heads(t, &t->out, sentence, head, t->queries, h.out);
}

static void attention_gradient_of_head(const void *context, int task) {
    const TrainedAttention *t = context;
    const int sentence = task / t->heads, head = task % t->heads;
    Head h;
    if (!open_head(t, &h)) return;
    read_heads(t, &t->q, task, t->queries, 1, h.q);
    read_heads(t, &t->k, task, t->keys, 1, h.k);
    read_heads(t, &t->v, task, t->keys, 1, h.v);
    read_heads(t, &t->grad_out, task, t->queries, 1, h.grad);
    transpose(h.v, t->width, t->keys, t->width, h.turned, h.padded);
    /* of the weights after dropout: dP' = dO V^T */
    small_product(h.grad, t->width, 1, h.turned, h.padded, h.grad_weights, h.padded, t->queries, t->width, h.padded);
    for (int i = 0; i < t->queries; i++) {
        float *w = h.weights + i * h.padded, *g = h.grad_weights + i * h.padded;
        const int64_t first = ((int64_t)task * t->queries + i) * t->keys;
        memset(w + h.padded - LANES, 0, sizeof(float) * LANES);
        read_row(t->weights, t->is_bfloat16, first, t->keys, 1, w);
        drop(t, first, g);
        if (t->grad_weights)
            for (int j = 0; j < t->keys; j++)
                g[j] += number_at(t->grad_weights, t->is_bfloat16, first + j);
        /* of the scores: dS = P (dP - sum P dP), times the factor of the scores */
        const float mean = dot(w, g, h.padded);
        for (int j = 0; j < h.padded; j += LANES) store(g + j, load(w + j) * (load(g + j) - mean) * t->scale);
        drop(t, first, w);
    }
    small_product(h.grad_weights, h.padded, 1, h.k, t->width, h.out, t->width, t->queries, t->keys, t->width);
    write_heads(t, &t->grad_q, sentence, head, t->queries, h.out);
    small_product(h.weights, 1, h.padded, h.grad, t->width, h.turned, t->width, t->keys, t->queries, t->width);
    write_heads(t, &t->grad_v, sentence, head, t->keys, h.turned);
    small_product(h.grad_weights, 1, h.padded, h.q, t->width, h.turned, t->width, t->keys, t->queries, t->width);
    write_heads(t, &t->grad_k, sentence, head, t->keys, h.turned);
}

int mtkit_attend(const TrainedAttention *t, const Threads *threads) {
    run_tasks(threads, t->sentences * t->heads, t->grad_out.data ? attention_gradient_of_head : attend_head, t);
    return *t->failed;
}

typedef uint8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

#define DROPPED_AT_ONCE (1 << 15) /* numbers of one task, a multiple of LANES */

static void drop_numbers(const void *context, int task) {
    const Dropped *d = context;
    const int64_t first = (int64_t)task * DROPPED_AT_ONCE;
    const int64_t end = d->count - first > DROPPED_AT_ONCE ? first + DROPPED_AT_ONCE : d->count;
    int64_t i = first;
    for (; i + LANES <= end; i += LANES) {
        const Floats x = load_number(d->x, d->x_is_bfloat16, i);
        Ints kept = splat_int(-1);
        if (d->random) kept &= __builtin_convertvector(*(const Bytes *)(d->random + i), Ints) >= d->drop_levels;
        if (d->gate) kept &= load_number(d->gate, d->x_is_bfloat16, i) != 0;
        if (d->is_relu) kept &= ~(x <= 0); /* NaN stays */
        Floats y = select_floats(kept, x * d->factor, splat(0));
        if (d->base) y += load_number(d->base, d->base_is_bfloat16, i);
        store_number(d->y, d->y_is_bfloat16, i, y);
    }
    for (; i < end; i++) {
        const float x = number_at(d->x, d->x_is_bfloat16, i);
        const int is_dropped = (d->random && d->random[i] < d->drop_levels)
                               || (d->gate && number_at(d->gate, d->x_is_bfloat16, i) == 0) || (d->is_relu && x <= 0);
        float y = is_dropped ? 0 : x * d->factor;
        if (d->base) y += number_at(d->base, d->base_is_bfloat16, i);
        write_row(d->y, d->y_is_bfloat16, i, 1, &y);
    }
}

int mtkit_drop(const Dropped *d, const Threads *threads) {
    run_tasks(threads, (int)((d->count + DROPPED_AT_ONCE - 1) / DROPPED_AT_ONCE), drop_numbers, d);
    return 0;
}

/* tanh x = (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; near 0 its series, whose relative error is smaller. */
INLINE Floats hyperbolic_tangent(Floats x) {
    const Floats size = select_floats(x < 0, -x, x), e = exponential_of_negative(-2 * size), y = (1 - e) / (1 + e), s = x * x;
    const Floats series = x * (1 + s * (-0.33333333f + s * (0.13333333f + s * -0.053968254f)));
    return select_floats(size < 0.1f, series, select_floats(x < 0, -y, y));
}

static void score_sentence(const void *context, int sentence) {
    const AdditiveScores *s = context;
    const int width = s->width, is_half = s->is_bfloat16;
    float *grad_v = s->grad_scores ? s->grad_v + (int64_t)sentence * width : NULL;
    for (int64_t row = (int64_t)sentence * s->queries; row < (int64_t)(sentence + 1) * s->queries; row++) {
        if (!s->grad_scores) {
            for (int j = 0; j < s->positions; j++) {
                const int64_t key = ((int64_t)sentence * s->positions + j) * width, place = (row * s->positions + j) * width;
                Floats score = splat(0);
                for (int d = 0; d < width; d += LANES) {
                    const Floats h = hyperbolic_tangent(load_number(s->keys, is_half, key + d)
                                                        + load_number(s->query, is_half, row * width + d));
                    store_number(s->hidden, is_half, place + d, h);
                    score += h * load_number(s->v, is_half, d);
                }
                const float sum = sum_of(score);
                write_row(s->scores, is_half, row * s->positions + j, 1, &sum);
            }
            continue;
        }
        for (int d = 0; d < width; d += LANES) {
            Floats of_query = splat(0), of_v = splat(0);
            for (int j = 0; j < s->positions; j++) {
                const float grad = number_at(s->grad_scores, is_half, row * s->positions + j);
                const Floats h = load_number(s->hidden, is_half, (row * s->positions + j) * width + d);
                float *of_key = s->grad_keys + ((int64_t)sentence * s->positions + j) * width + d;
                const Floats change = grad * (1 - h * h);
                of_query += change, of_v += grad * h;
                store(of_key, load(of_key) + change);
            }
            store_number(s->grad_query, is_half, row * width + d, of_query * load_number(s->v, is_half, d));
            store(grad_v + d, load(grad_v + d) + of_v);
        }
    }
}

int mtkit_score_additively(const AdditiveScores *s, const Threads *threads) {
    run_tasks(threads, s->sentences, score_sentence, s);
    return 0;
}
