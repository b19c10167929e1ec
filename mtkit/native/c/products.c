#include "products.h"

#include "instructions.h"
#include "scratch.h"

/* Inputs in the 32 bits that one multiplication reads of each row: 1 float, 2 bfloat16 or 4 integers. */
static const int GROUP[NUM_TYPES] = {1, 2, 4};

/* A product, as its tiles see it. */
typedef struct {
    const Linear *w;
    const Operand *operand;
    const Destination *out;
} Product;

INLINE int groups_of(int inputs, int type) { return (inputs + GROUP[type] - 1) / GROUP[type]; }

/* 8-bit integers y with x nearly scale * y. A row with NaN or infinity has a scale of NaN. */
static void quantise_row(const float *x, int inputs, int8_t *y, float *scale, int32_t *sum) {
    Floats largest = splat(1e-30f), invalid = splat(0);
    int i = 0;
    for (; i + LANES <= inputs; i += LANES) {
        const Floats v = load(x + i);
        largest = larger(select_floats(v < 0.0f, -v, v), largest);
        invalid += v * 0.0f;
    }
    float maximum = largest_of(largest), not_finite = sum_of(invalid);
    for (; i < inputs; i++) {
        maximum = fabsf(x[i]) > maximum ? fabsf(x[i]) : maximum;
        not_finite += x[i] * 0;
    }
    if (not_finite != 0) {
        memset(y, 0, (size_t)inputs);
        *scale = NAN;
        *sum = 0;
        return;
    }
    const float factor = 127 / maximum;
    *scale = maximum / 127;
    const Floats magic = splat(12582912.0f); /* adding it rounds to an integer in the low bits */
    Ints total = splat_int(0);
    int32_t rest = 0;
    for (i = 0; i + LANES <= inputs; i += LANES) {
        const Ints rounded = (Ints)(load(x + i) * factor + magic) - (Ints)magic;
        total += rounded;
        for (int j = 0; j < LANES; j++) y[i + j] = (int8_t)rounded[j];
    }
    for (; i < inputs; i++) rest += y[i] = (int8_t)rintf(x[i] * factor);
    for (int j = 0; j < LANES; j++) rest += total[j];
    *sum = WEIGHT_OFFSET * rest;
}

Operand reserve_operand(const Linear *w, int rows, float **spare) {
    const int groups = groups_of(w->inputs, w->type);
    const size_t elements = (size_t)rows * groups;
    Operand operand = {.groups = groups};
    operand.data = scratch(OPERAND_ROWS, sizeof(int32_t) * (elements + 2 * (size_t)rows + w->inputs));
    if (!operand.data) return operand;
    operand.scale = (float *)(operand.data + elements);
    operand.sum = (int32_t *)(operand.scale + rows);
    *spare = (float *)(operand.sum + rows);
    return operand;
}

void convert_row(const Linear *w, const float *x, const Operand *operand, int row) {
    int32_t *out = operand->data + (size_t)row * operand->groups;
    if (w->type == FLOAT32) {
        memcpy(out, x, sizeof(float) * (size_t)w->inputs);
        return;
    }
    out[operand->groups - 1] = 0; /* inputs beyond the last */
    if (w->type == INT8) {
        quantise_row(x, w->inputs, (int8_t *)out, operand->scale + row, operand->sum + row);
        return;
    }
    Half *y = (Half *)out;
    for (int i = 0; i < w->inputs; i++) y[i] = to_half(x[i]);
}

/* One step of the sums of a tile: acc[r][c] += a[r] * w[c], over the inputs of a group. */
INLINE Ints multiply_add(Ints acc, int32_t a, Ints w, const int type) {
    if (type == INT8) return add_dot_int8(acc, w, a);
    if (type == BFLOAT16) return add_dot_bfloat16(acc, w, a);
    float x;
    memcpy(&x, &a, sizeof x);
    return (Ints)((Floats)acc + x * (Floats)w);
}

INLINE Floats activate(Floats x, int activation) {
    switch (activation) {
    case RELU: return select_floats(x <= 0.0f, splat(0.0f), x); /* NaN stays */
    case SILU: return x / (1.0f + exponential(-x));
    case GELU: { /* x Phi(x); Abramowitz and Stegun 7.1.26 for erf, error below 2e-7 */
        const Floats z = x * 0.70710678f, size = select_floats(z < 0.0f, -z, z), t = 1.0f / (1.0f + 0.3275911f * size);
        Floats p = splat(1.061405429f);
        p = p * t - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        const Floats erf = 1.0f - p * t * exponential(-size * size);
        return 0.5f * x * (1.0f + select_floats(z < 0.0f, -erf, erf));
    }
    case GELU_TANH: /* 0.5 x (1 + tanh(u)) = x / (1 + e^-2u) */
        return x / (1.0f + exponential(-1.59576912f * (x + 0.044715f * x * x * x)));
    default: return x;
    }
}

/* The same as a call: these activations are many instructions, and a call costs little beside them. */
static NOINLINE Floats call_activate(Floats x, int activation) { return activate(x, activation); }

void apply_gates(float *x, int rows, int width, int activation) {
    for (int r = 0; r < rows; r++) {
        const float *gates = x + (size_t)r * 2 * width;
        float *y = x + (size_t)r * width;
        int i = 0;
        for (; i + LANES <= width; i += LANES) {
            const Floats values = load(gates + width + i);
            store(y + i, call_activate(load(gates + i), activation) * values);
        }
        if (i == width) continue;
        float last[2][LANES] = {{0}};
        memcpy(last[0], gates + i, sizeof(float) * (size_t)(width - i));
        memcpy(last[1], gates + width + i, sizeof(float) * (size_t)(width - i));
        store(last[0], call_activate(load(last[0]), activation) * load(last[1]));
        memcpy(y + i, last[0], sizeof(float) * (size_t)(width - i));
    }
}

/* Outputs from the sums [rows, columns] of a tile: scale, bias, activation, residual connection. `row` and `column` are
   the first ones of the tile. Not inlined: there are some forty tiles, and the compiler would take a minute for as many
   copies. */
static NOINLINE void finish_tile(const Product *product, int row, int rows, int column, int columns, const Ints *sums) {
    const Linear *w = product->w;
    const Operand *a = product->operand;
    const Destination *out = product->out;
    for (int c = 0; c < columns; c++, column += LANES) {
        if (out->integer_sums) {
            int32_t *y = out->integer_sums + (size_t)row * padded_outputs(w) + column;
            for (int r = 0; r < rows; r++, y += padded_outputs(w)) store_ints(y, sums[r * columns + c]);
            continue;
        }
        const int remaining = w->outputs - column, is_whole = remaining >= LANES;
        if (remaining <= 0) return;
        float pad[2][LANES] = {{0}}; /* the parameters of the last outputs are padded: nothing is read beyond them */
        const float *bias = pad[0], *scale = pad[1];
        const size_t size = sizeof(float) * (size_t)remaining;
        if (w->bias) bias = is_whole ? w->bias + column : memcpy(pad[0], w->bias + column, size);
        if (w->scale) scale = is_whole ? w->scale + column : memcpy(pad[1], w->scale + column, size);
        const Floats biases = load(bias), scales = load(scale);
        for (int r = 0; r < rows; r++) {
            const Ints sum = sums[r * columns + c];
            float *y = out->y + (row + r) * out->stride + column;
            Floats value = (Floats)sum;
            if (w->type == INT8) value = to_floats(sum - a->sum[row + r]) * (scales * a->scale[row + r]);
            value += biases;
            if (out->activation == RELU) value = activate(value, RELU);
            else if (out->activation) value = call_activate(value, out->activation);
            if (is_whole) {
                store(y, out->adds ? load(y) + value : value);
                continue;
            }
            float last[LANES];
            store(last, value);
            for (int i = 0; i < remaining; i++) y[i] = out->adds ? y[i] + last[i] : last[i];
        }
    }
}

/* The tile of `rows` rows and `panels` panels, which the compiler unrolls: its sums stay in registers. */
INLINE void tile(const int rows, const int panels, const int type, const Product *product, int row, int panel) {
    const int groups = product->operand->groups;
    const int32_t *x = product->operand->data + (size_t)row * groups;
    const int32_t *weights = product->w->panels + (size_t)panel * groups * PANEL;
    Ints acc[MAX_ROWS][8];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int c = 0; c < 2 * panels; c++) acc[r][c] = splat_int(0);
    for (int g = 0; g < groups; g++) {
        Ints v[8];
        UNROLL for (int c = 0; c < 2 * panels; c++)
            v[c] = load_ints(weights + ((size_t)(c / 2) * groups + g) * PANEL + c % 2 * LANES);
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int c = 0; c < 2 * panels; c++)
                acc[r][c] = multiply_add(acc[r][c], x[(size_t)r * groups + g], v[c], type);
    }
    Ints sums[MAX_ROWS * 8];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int c = 0; c < 2 * panels; c++) sums[r * 2 * panels + c] = acc[r][c];
    finish_tile(product, row, rows, panel * PANEL, 2 * panels, sums);
}

#define TILE(rows, panels) \
    case rows: tile(rows, panels, type, product, row, panel); break

/* Few rows take more panels at once: a sum waits for its last addition, so that many sums must run side by side. */
enum { FEW_ROWS = MAX_ROWS / 6 }; /* of four panels, whose sums fit into the registers */
INLINE int panels_at_once(int rows) { return rows <= FEW_ROWS ? 4 : rows <= MAX_ROWS / 2 ? 2 : 1; }

INLINE void four_panels(const int type, const Product *product, int row, int rows, int panel) {
    switch (rows) {
        TILE(1, 4);
#if MAX_ROWS == 12
        TILE(2, 4);
#endif
    }
}

INLINE void two_panels(const int type, const Product *product, int row, int rows, int panel) {
    switch (rows) {
#if MAX_ROWS == 6
        TILE(2, 2);
#endif
        TILE(3, 2);
#if MAX_ROWS == 12
        TILE(4, 2);
        TILE(5, 2);
        TILE(6, 2);
#endif
    }
}

INLINE void one_panel(const int type, const Product *product, int row, int rows, int panel) {
    switch (rows) {
        TILE(1, 1);
        TILE(2, 1);
        TILE(3, 1);
        TILE(4, 1);
        TILE(5, 1);
        TILE(6, 1);
#if MAX_ROWS == 12
        TILE(7, 1);
        TILE(8, 1);
        TILE(9, 1);
        TILE(10, 1);
        TILE(11, 1);
        TILE(12, 1);
#endif
    }
}

/* All tiles of a product. The rows are cut into equal blocks; the weights of a panel serve all of them. */
INLINE void all_tiles(const int type, const Product *product, int rows) {
    const int blocks = (rows + MAX_ROWS - 1) / MAX_ROWS, panels = padded_outputs(product->w) / PANEL;
    if (!blocks) return;
    const int size = (rows + blocks - 1) / blocks, panels_together = panels_at_once(size);
    for (int panel = 0; panel < panels;) {
        const int count = panel + panels_together <= panels ? panels_together : 1;
        for (int row = 0; row < rows; row += size) {
            const int n = rows - row < size ? rows - row : size;
            if (count == 4) four_panels(type, product, row, n, panel);
            else if (count == 2 && n > FEW_ROWS) two_panels(type, product, row, n, panel);
            else
                for (int i = 0; i < count; i++) one_panel(type, product, row, n, panel + i);
        }
        panel += count;
    }
}

static NOINLINE void multiply_float32(const Product *product, int rows) { all_tiles(FLOAT32, product, rows); }
static NOINLINE void multiply_bfloat16(const Product *product, int rows) { all_tiles(BFLOAT16, product, rows); }
static NOINLINE void multiply_int8(const Product *product, int rows) { all_tiles(INT8, product, rows); }

Linear part_of(const Linear *w, int first, int count) {
    Linear part = *w;
    part.panels += (size_t)first * (size_t)groups_of(w->inputs, w->type);
    if (w->bias) part.bias += first;
    if (w->scale) part.scale += first;
    part.outputs = w->outputs - first < count ? w->outputs - first : count;
    return part;
}

void multiply(const Linear *w, const Operand *operand, int rows, const Destination *out) {
    const Product product = {w, operand, out};
    if (w->type == INT8) multiply_int8(&product, rows);
    else if (w->type == BFLOAT16) multiply_bfloat16(&product, rows);
    else multiply_float32(&product, rows);
}

/* ---- functions that Python calls ---- */

int64_t mtkit_packed_elements(int outputs, int inputs, int type) {
    return (int64_t)(outputs + PANEL - 1) / PANEL * PANEL * groups_of(inputs, type);
}

void pack_row(const Linear *w, int32_t *panels, int row, const void *weights) {
    const int groups = groups_of(w->inputs, w->type), group = GROUP[w->type], rest = w->inputs % group;
    const char *from = weights;
    int32_t *to = panels + (size_t)(row / PANEL) * groups * PANEL + row % PANEL;
    for (int g = 0; g < w->inputs / group; g++, from += sizeof *to, to += PANEL) memcpy(to, from, sizeof *to);
    if (rest) memset(to, 0, sizeof *to), memcpy(to, from, sizeof *to / (size_t)group * (size_t)rest);
}

/* Pack the rows of weights [outputs, inputs] from `first` on. Integers are weights divided by the scale of their row,
   which is written to `scale`, with 128 added. Returns 0 if memory is exhausted. */
int mtkit_pack(const float *weight, const Linear *w, int first, int count, int32_t *panels, float *scale) {
    uint16_t *row = scratch(OPERAND_ROWS, sizeof *row * ((size_t)w->inputs + 2 * LANES));
    if (!row) return 0;
    for (int o = first; o < first + count; o++) {
        const float *from = weight + (size_t)o * (size_t)w->inputs;
        int32_t sum;
        if (w->type == INT8) {
            quantise_row(from, w->inputs, (int8_t *)row, scale + o, &sum);
            for (int i = 0; i < w->inputs; i++) ((uint8_t *)row)[i] ^= 0x80;
        }
        for (int i = 0; w->type == BFLOAT16 && i < w->inputs; i++) row[i] = to_half(from[i]);
        pack_row(w, panels, o, w->type == FLOAT32 ? (const void *)from : row);
    }
    return 1;
}
