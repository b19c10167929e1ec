/* Structures of the layers, and what all sublayers do: norm, projection, residual connection. */

enum { NO_NORM, LAYER_NORM, RMS_NORM };

typedef struct {
    const float *weight, *bias; /* [D], or NULL */
    float epsilon;
    int32_t kind;
} Norm;

/* A layer of encoder or decoder; an encoder layer has no parts for the source. */
typedef struct {
    Linear query_key_value, out, source_query, source_key_value, source_out, inner, outer;
    Norm norm, source_norm, feed_forward_norm;
    int32_t heads, source_heads, activation, is_pre_norm;
} Layer;

typedef struct {
    const Layer *layers;
    Norm final_norm;
    float scale, source_scale; /* of products of queries and keys */
    int32_t num_layers, d_model, head_dim, rotate_halves, alignment_layer;
} Stack;

/* Keys and values of the decoder's tokens in one layer, [sentences, capacity, heads * K] each. */
typedef struct {
    float *keys, *values;
} Cache;

/* Keys [H, K, padded length] and values [H, padded length, K] of each sentence of the source, in one layer. */
typedef struct {
    float *keys, *values;
} Memory;

static void normalise(const Norm *norm, const float *x, int width, float *y) {
    if (norm->kind == NO_NORM) {
        if (x != y) memcpy(y, x, 4 * (size_t)width);
        return;
    }
    Floats total = splat(0), squares = splat(0);
    float mean = 0, left = 0;
    int i = 0;
    if (norm->kind == LAYER_NORM) {
        for (; i + LANES <= width; i += LANES) total += load(x + i);
        mean = sum_of(total);
        for (; i < width; i++) mean += x[i];
        mean /= (float)width;
    }
    for (i = 0; i + LANES <= width; i += LANES) {
        const Floats d = load(x + i) - mean;
        squares += d * d;
    }
    for (; i < width; i++) left += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / sqrtf((sum_of(squares) + left) / (float)width + norm->epsilon);
    for (i = 0; i + LANES <= width; i += LANES) {
        Floats z = (load(x + i) - mean) * factor;
        if (norm->weight) z *= load(norm->weight + i);
        store(y + i, norm->bias ? z + load(norm->bias + i) : z);
    }
    for (; i < width; i++)
        y[i] = (x[i] - mean) * factor * (norm->weight ? norm->weight[i] : 1) + (norm->bias ? norm->bias[i] : 0);
}

static void normalise_rows(const Norm *norm, float *x, int rows, int width) {
    for (int r = 0; r < rows; r++) normalise(norm, x + (size_t)r * width, width, x + (size_t)r * width);
}

/* Rows of x [rows, inputs], normalised if `norm` is not NULL, in the type of a projection. */
static Operand operand_of(const Norm *norm, const float *x, int rows, const Linear *w) {
    const int groups = groups_of(w->inputs, w->type);
    const size_t elements = (size_t)rows * groups;
    Operand a = {.groups = groups, .data = reserve(OPERAND, 4 * (elements + 2 * rows + w->inputs))};
    if (!a.data) return a;
    a.scale = (float *)(a.data + elements);
    a.sum = (int32_t *)(a.scale + rows);
    float *row = (float *)(a.sum + rows);
    for (int r = 0; r < rows; r++) {
        const float *from = x + (size_t)r * w->inputs;
        if (norm) normalise(norm, from, w->inputs, row);
        convert_row(norm ? row : from, w->inputs, w->type, a.data + (size_t)r * groups, a.scale + r, a.sum + r);
    }
    return a;
}

/* y = activation(norm(x) W^T + b) of rows [rows, inputs], or y += that. Returns 0 if memory is exhausted. */
static int project(const Norm *norm, const float *x, int rows, const Linear *w, float *y, int activation, int adds) {
    const Operand a = operand_of(norm, x, rows, w);
    if (!a.data) return 0;
    multiply(w, &a, rows, &(Target){y, w->outputs, activation, adds});
    return 1;
}

/* The end of a sublayer: x + out(y), then the norm of a post-norm layer. */
static int add_residual(const Layer *layer, const Norm *norm, const Linear *out, const float *y, float *x, int rows) {
    if (!project(NULL, y, rows, out, x, NO_ACTIVATION, 1)) return 0;
    if (!layer->is_pre_norm) normalise_rows(norm, x, rows, out->outputs);
    return 1;
}

static int feed_forward(const Layer *layer, float *x, int rows) {
    const Norm *norm = &layer->feed_forward_norm;
    float *inner = floats(PROJECTION, (size_t)rows * layer->inner.outputs);
    return inner && project(layer->is_pre_norm ? norm : NULL, x, rows, &layer->inner, inner, layer->activation, 0) &&
           add_residual(layer, norm, &layer->outer, inner, x, rows);
}
