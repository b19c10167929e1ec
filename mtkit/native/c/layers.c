#include "layers.h"

#include "scratch.h"

static void normalise(const Norm *norm, const float *x, int width, float *y) {
    if (norm->kind == NO_NORM) {
        if (x != y) memcpy(y, x, sizeof(float) * (size_t)width);
        return;
    }
    Floats total = splat(0), squares = splat(0);
    float mean = 0, last_squares = 0;
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
    for (; i < width; i++) last_squares += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / sqrtf((sum_of(squares) + last_squares) / (float)width + norm->epsilon);
    for (i = 0; i + LANES <= width; i += LANES) {
        Floats z = (load(x + i) - mean) * factor;
        if (norm->weight) z *= load(norm->weight + i);
        store(y + i, norm->bias ? z + load(norm->bias + i) : z);
    }
    for (; i < width; i++)
        y[i] = (x[i] - mean) * factor * (norm->weight ? norm->weight[i] : 1) + (norm->bias ? norm->bias[i] : 0);
}

void normalise_rows(const Norm *norm, float *x, int rows, int width) {
    for (int r = 0; r < rows; r++) normalise(norm, x + (size_t)r * width, width, x + (size_t)r * width);
}

Operand operand_of(const Norm *norm, const float *x, int rows, const Linear *w) {
    float *normalised;
    const Operand operand = reserve_operand(w, rows, &normalised);
    for (int r = 0; r < rows && operand.data; r++, x += w->inputs) {
        if (norm) normalise(norm, x, w->inputs, normalised);
        convert_row(w, norm ? normalised : x, &operand, r);
    }
    return operand;
}

int project(const Norm *norm, const float *x, int rows, const Linear *w, float *y, int activation) {
    const Operand operand = operand_of(norm, x, rows, w);
    if (!operand.data) return 0;
    multiply(w, &operand, rows, &(Destination){.y = y, .stride = (size_t)w->outputs, .activation = activation});
    return 1;
}

int add_residual(const Layer *layer, const Norm *norm, const Linear *out, const float *y, float *x, int rows) {
    const Operand operand = operand_of(NULL, y, rows, out);
    if (!operand.data) return 0;
    multiply(out, &operand, rows, &(Destination){.y = x, .stride = (size_t)out->outputs, .adds = 1});
    if (!layer->is_pre_norm) normalise_rows(norm, x, rows, out->outputs);
    return 1;
}

int feed_forward(const Layer *layer, float *x, int rows) {
    const Norm *norm = &layer->feed_forward_norm;
    float *inner = scratch_floats(INNER_ACTIVATIONS, (size_t)rows * layer->inner.outputs);
    const int is_gated = layer->inner.outputs == 2 * layer->outer.inputs;
    if (!inner || !project(layer->is_pre_norm ? norm : NULL, x, rows, &layer->inner, inner,
                           is_gated ? NO_ACTIVATION : layer->activation))
        return 0;
    if (is_gated) apply_gates(inner, rows, layer->outer.inputs, layer->activation);
    return add_residual(layer, norm, &layer->outer, inner, x, rows);
}

/* y [rows, outputs] = x W^T + b of x [rows, inputs]; called by Python. */
int mtkit_project(const Linear *w, const float *x, int64_t rows, float *y) {
    for (int64_t r = 0; r < rows; r += CHUNK) {
        const int n = (int)(rows - r < CHUNK ? rows - r : CHUNK);
        if (!project(NULL, x + r * w->inputs, n, w, y + r * w->outputs, NO_ACTIVATION)) return 0;
    }
    return 1;
}
