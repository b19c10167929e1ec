/* C = A B of training. B is packed into panels of PANEL columns; tiles of TILE_ROWS rows of A and a panel of B have their
   sums in registers. Rows of A are read where they are, unless they are to be rounded to bfloat16.

   Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication". Nothing is compiled for a shape, which
   counts in training: nearly every batch has another number of rows. */

#include "scratch.h"
#include "training.h"

#if LANES == 16
#define TILE_ROWS 14 /* 28 sums, 2 vectors of B and a number of A in 32 registers */
#else
#define TILE_ROWS MAX_ROWS
#endif
#define ROWS_AT_ONCE 10 /* tiles that read a panel while it is in the cache */
#define MIN_WORK (1 << 21) /* multiplications for which a second thread is asked */

#define PACKED_ROWS 64 /* rows of A that one task packs */

INLINE int min_int(int a, int b) { return a < b ? a : b; }

/* A product on its way: a block of groups of both operands as tiles read them, in elements of 32 bits, one float or two
   bfloat16. */
typedef struct {
    const MatrixProduct *product;
    const int32_t *a;
    int64_t a_row, a_group; /* strides */
    int32_t *packed_a, *panels;
    float *bias; /* padded to a multiple of PANEL; or NULL */
    int pairs, first_group, groups, is_last, adds, packed_panels, row_chunk, column_chunk, column_chunks;
} Work;

typedef struct {
    void (*task)(const void *, int);
    const void *context;
    int tasks, next;
} TaskList;

static void run_thread(void *data) {
    TaskList *list = data;
    for (int i; (i = __atomic_fetch_add(&list->next, 1, __ATOMIC_RELAXED)) < list->tasks;) list->task(list->context, i);
}

void run_tasks(const Threads *threads, int tasks, void (*task)(const void *, int), const void *context) {
    TaskList list = {.task = task, .context = context, .tasks = tasks};
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    memcpy(&parallel, &threads->parallel, sizeof parallel);
    if (parallel && threads->threads > 1 && tasks > 1)
        parallel(run_thread, &list, (unsigned)threads->threads, 0);
    else
        run_thread(&list);
}

void transpose(const void *x, int64_t x_stride, int rows, int columns, void *y, int64_t y_stride) {
    for (int i = 0; i < rows; i += LANES) {
        const Bits *from = (const Bits *)x + i * x_stride;
        const int count = min_int(LANES, rows - i);
        Bits *to = (Bits *)y + i;
        int j = 0;
#if defined(__GNUC__) && !defined(__clang__) /* blocks off the diagonal are exchanged, of 1, 2, 4, ... numbers */
        for (; j + LANES <= columns; j += LANES) {
            Ints v[LANES];
            UNROLL for (int r = 0; r < LANES; r++) v[r] = r < count ? load_ints(from + r * x_stride + j) : splat_int(0);
            UNROLL for (int step = 1; step < LANES; step *= 2) {
                Ints upper, lower;
                UNROLL for (int r = 0; r < LANES; r++) {
                    upper[r] = r & step ? LANES + r - step : r;
                    lower[r] = r & step ? LANES + r : r + step;
                }
                UNROLL for (int r = 0; r < LANES; r++) {
                    if (r & step) continue;
                    const Ints a = v[r], b = v[r + step];
                    v[r] = __builtin_shuffle(a, b, upper), v[r + step] = __builtin_shuffle(a, b, lower);
                }
            }
            UNROLL for (int r = 0; r < LANES; r++) store_ints(to + (j + r) * y_stride, v[r]);
        }
#endif
        for (; j < columns; j++)
            for (int r = 0; r < LANES; r++) to[j * y_stride + r] = r < count ? from[r * x_stride + j] : 0;
    }
}

/* `count` numbers of a row from `first` on, as bfloat16. */
static void round_row(const Matrix *m, int64_t first, int count, Half *out) {
    if (m->is_bfloat16) {
        memcpy(out, (const Half *)m->data + first, sizeof(Half) * (size_t)count);
        return;
    }
    const float *x = (const float *)m->data + first;
    int i = 0;
    for (; i + LANES <= count; i += LANES) *(UnalignedHalves *)(out + i) = to_halves(load(x + i));
    for (; i < count; i++) out[i] = to_half(x[i]);
}

/* The numbers of a vector as bfloat16, in the lower halves of 32 bits. */
INLINE Ints load_rounded(const Matrix *m, int64_t place) {
    if (m->is_bfloat16)
        return __builtin_convertvector(*(const UnalignedHalves *)((const Half *)m->data + place), Ints);
    return (rounded_bits(load((const float *)m->data + place)) >> 16) & 0xffff;
}

INLINE int32_t rounded_at(const Matrix *m, int64_t place) {
    return m->is_bfloat16 ? ((const Half *)m->data)[place] : to_half(((const float *)m->data)[place]);
}

/* `count` pairs of bfloat16, from two rows of a matrix, of which the lower may be missing: out[i] = (upper[i], lower[i]). */
static void pair_rows(const Matrix *m, int64_t upper, int64_t lower, int has_lower, int count, int32_t *out) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        Ints pair = load_rounded(m, upper + i);
        if (has_lower) pair |= load_rounded(m, lower + i) << 16;
        store_ints(out + i, pair);
    }
    for (; i < count; i++)
        out[i] = rounded_at(m, upper + i) | (has_lower ? (int32_t)((uint32_t)rounded_at(m, lower + i) << 16) : 0);
}

/* Rows [first, first + count) of A as groups of bfloat16: by row where the columns of A are adjacent, else by group. */
static void pack_rows(const Work *w, int first, int count) {
    const Matrix *a = &w->product->a;
    const int k = 2 * w->first_group, columns = min_int(2 * w->groups, a->columns - k);
    if (a->column_stride == 1) {
        for (int row = first; row < first + count; row++) {
            int32_t *out = w->packed_a + row * w->a_row;
            out[w->groups - 1] = 0;
            round_row(a, row * a->row_stride + k, columns, (Half *)out);
        }
        return;
    }
    for (int g = 0; g < w->groups; g++) {
        const int64_t place = (k + 2 * g) * a->column_stride + first;
        pair_rows(a, place, place + a->column_stride, 2 * g + 1 < columns, count, w->packed_a + g * w->a_group + first);
    }
}

/* A panel of B, [groups, PANEL]; columns beyond the last are zero. */
static void pack_panel(const Work *w, int panel) {
    const Matrix *b = &w->product->b;
    const int width = w->pairs ? 2 : 1, k = w->first_group * width, rows = min_int(w->groups * width, b->rows - k);
    const int first = panel * PANEL, count = min_int(PANEL, b->columns - first);
    int32_t *out = w->panels + (size_t)panel * PANEL * w->groups;
    if (count < PANEL) memset(out, 0, sizeof(int32_t) * PANEL * (size_t)w->groups);
    if (b->column_stride == 1) {
        for (int g = 0; g < w->groups; g++) {
            const int64_t place = (k + g * width) * b->row_stride + first;
            if (w->pairs)
                pair_rows(b, place, place + b->row_stride, 2 * g + 1 < rows, count, out + g * PANEL);
            else
                memcpy(out + g * PANEL, (const float *)b->data + place, sizeof(float) * (size_t)count);
        }
        return;
    }
    int32_t rounded[LANES * BLOCK_GROUPS];
    for (int j = 0; j < count; j += LANES) { /* a column of B is adjacent in memory */
        const int columns = min_int(LANES, count - j);
        const int64_t place = (first + j) * b->column_stride + k;
        if (!w->pairs) {
            transpose((const float *)b->data + place, b->column_stride, columns, w->groups, out + j, PANEL);
            continue;
        }
        for (int i = 0; i < columns; i++) {
            rounded[(i + 1) * w->groups - 1] = 0;
            round_row(b, place + i * b->column_stride, rows, (Half *)(rounded + i * w->groups));
        }
        transpose(rounded, w->groups, columns, w->groups, out + j, PANEL);
    }
}

/* Add the sums of rows [first, first + count) of A over a block; the numbers of a column are adjacent. */
static void sum_rows(const Work *w, int first, int count) {
    const Matrix *a = &w->product->a;
    const int width = w->pairs ? 2 : 1, begin = w->first_group * width, end = min_int(begin + w->groups * width, a->columns);
    float sums[PACKED_ROWS] = {0}, *total = w->product->row_sums + first;
    for (int k = begin; k < end; k++) {
        const int64_t place = k * a->column_stride + first;
        int i = 0;
        for (; i + LANES <= count; i += LANES) store(sums + i, load(sums + i) + load_number(a->data, a->is_bfloat16, place + i));
        for (; i < count; i++) sums[i] += number_at(a->data, a->is_bfloat16, place + i);
    }
    for (int i = 0; i < count; i++) total[i] = begin ? total[i] + sums[i] : sums[i];
}

/* Sums of TILE_ROWS rows and a panel over `count` groups. */
INLINE void tile(const int32_t *a, int64_t a_row, int64_t a_group, const int32_t *b, int count,
                 Ints acc[TILE_ROWS][2], const int type) {
    UNROLL for (int r = 0; r < TILE_ROWS; r++) acc[r][0] = acc[r][1] = splat_int(0);
    for (int g = 0; g < count; g++) {
        const Ints b0 = load_ints(b + g * PANEL), b1 = load_ints(b + g * PANEL + LANES);
        UNROLL for (int r = 0; r < TILE_ROWS; r++) {
            const int32_t *p = a + r * a_row + g * a_group;
            if (type == BFLOAT16) {
                acc[r][0] = add_dot_bfloat16(acc[r][0], b0, *p);
                acc[r][1] = add_dot_bfloat16(acc[r][1], b1, *p);
            } else {
                const float x = *(const float *)p;
                acc[r][0] = (Ints)((Floats)acc[r][0] + x * (Floats)b0);
                acc[r][1] = (Ints)((Floats)acc[r][1] + x * (Floats)b1);
            }
        }
    }
}

/* Write the sums of a tile, or add them to what is there. */
INLINE void store_tile(const Work *w, int row, int rows, int column, Ints sums[TILE_ROWS][2]) {
    const MatrixProduct *p = w->product;
    const int columns = min_int(PANEL, p->b.columns - column);
    Floats bias[2] = {splat(0), splat(0)};
    if (w->is_last && w->bias) bias[0] = load(w->bias + column), bias[1] = load(w->bias + column + LANES);
    for (int r = 0; r < rows; r++) {
        const int64_t place = (row + r) * p->c_stride + column;
        float buffer[PANEL], *c = (float *)p->c + place;
        if (columns < PANEL) {
            if (w->adds) memcpy(buffer, c, sizeof(float) * (size_t)columns);
            c = buffer;
        }
        for (int h = 0; h < 2; h++) {
            Floats sum = (Floats)sums[r][h] + bias[h];
            if (w->adds) sum += load(c + h * LANES); /* of float32 only */
            if (p->c_is_bfloat16 && columns == PANEL)
                *(UnalignedHalves *)((Half *)p->c + place + h * LANES) = to_halves(sum);
            else
                store(c + h * LANES, sum);
        }
        if (columns == PANEL) continue;
        if (p->c_is_bfloat16)
            for (int i = 0; i < columns; i++) ((Half *)p->c)[place + i] = to_half(buffer[i]);
        else
            memcpy((float *)p->c + place, buffer, sizeof(float) * (size_t)columns);
    }
}

static void multiply_chunk(const void *context, int task) {
    const Work *w = context;
    const MatrixProduct *p = w->product;
    const int row_first = task / w->column_chunks * w->row_chunk;
    const int row_end = min_int(row_first + w->row_chunk, p->a.rows);
    const int column_first = task % w->column_chunks * w->column_chunk;
    const int column_end = min_int(column_first + w->column_chunk, p->b.columns);
    int32_t tail[TILE_ROWS * BLOCK_GROUPS];
    for (int first = row_first; first < row_end; first += ROWS_AT_ONCE * TILE_ROWS) {
        const int end = min_int(first + ROWS_AT_ONCE * TILE_ROWS, row_end);
        const int full = first + (end - first) / TILE_ROWS * TILE_ROWS;
        if (full < end) { /* a tile of fewer rows: they are copied, and the others are zero */
            const int32_t *a = w->a + full * w->a_row;
            memset(tail, 0, sizeof(int32_t) * TILE_ROWS * (size_t)w->groups);
            for (int r = 0; r < end - full; r++)
                for (int g = 0; g < w->groups; g++) tail[g * TILE_ROWS + r] = a[r * w->a_row + g * w->a_group];
        }
        for (int column = column_first; column < column_end; column += PANEL) {
            const int32_t *b = w->panels + (size_t)column * w->groups;
            for (int row = first; row < end; row += TILE_ROWS) {
                Ints sums[TILE_ROWS][2];
                const int is_tail = row == full;
                const int32_t *a = is_tail ? tail : w->a + row * w->a_row;
                const int64_t a_row = is_tail ? 1 : w->a_row, a_group = is_tail ? TILE_ROWS : w->a_group;
                if (w->pairs)
                    tile(a, a_row, a_group, b, w->groups, sums, BFLOAT16);
                else
                    tile(a, a_row, a_group, b, w->groups, sums, FLOAT32);
                store_tile(w, row, is_tail ? end - full : TILE_ROWS, column, sums);
            }
        }
    }
}

static void pack_task(const void *context, int task) {
    const Work *w = context;
    if (task < w->packed_panels) {
        pack_panel(w, task);
        return;
    }
    const int first = (task - w->packed_panels) * PACKED_ROWS;
    const int count = min_int(PACKED_ROWS, w->product->a.rows - first);
    if (w->packed_a) pack_rows(w, first, count);
    if (w->product->row_sums) sum_rows(w, first, count);
}

int mtkit_multiply(const MatrixProduct *p, const Threads *threads) {
    const Matrix *a = &p->a, *b = &p->b;
    Work w = {.product = p, .pairs = p->type == BFLOAT16};
    const int all = w.pairs ? (a->columns + 1) / 2 : a->columns, block = min_int(all, BLOCK_GROUPS);
    const int tiles = (a->rows + TILE_ROWS - 1) / TILE_ROWS, panels = (b->columns + PANEL - 1) / PANEL;
    const size_t padded = sizeof(int32_t) * PANEL * (size_t)panels;
    int32_t *memory = scratch(PRODUCT_PANELS, padded * (p->panels ? 1 : (size_t)block + 1));
    if (!memory) return 1;
    if (p->bias) {
        w.bias = (float *)memory;
        memset(w.bias + (panels - 1) * PANEL, 0, sizeof(float) * PANEL);
        memcpy(w.bias, p->bias, sizeof(float) * (size_t)b->columns);
    }
    w.packed_panels = p->is_packed ? 0 : panels;
    const int packs = w.pairs && (!a->is_bfloat16 || a->column_stride != 1 || a->columns % 2 || a->row_stride % 2
                                  || (uintptr_t)a->data % 4);
    w.a_row = w.pairs ? a->row_stride / 2 : a->row_stride, w.a_group = a->column_stride;
    if (packs) {
        w.a_row = a->column_stride == 1 ? block : 1, w.a_group = a->column_stride == 1 ? 1 : a->rows;
        w.a = w.packed_a = scratch(PRODUCT_ROWS, sizeof(int32_t) * (size_t)a->rows * (size_t)block);
        if (!w.a) return 1;
    }
    /* chunks of rows, or of columns where those are more */
    const Threads used = {threads->parallel, (int64_t)a->rows * b->columns * a->columns < MIN_WORK ? 1 : threads->threads};
    const int chunks = used.threads > 1 ? 4 * used.threads : 1, by_rows = tiles >= panels;
    const int row_chunks = by_rows ? min_int(chunks, tiles) : 1, column_chunks = by_rows ? 1 : min_int(chunks, panels);
    w.row_chunk = (tiles + row_chunks - 1) / row_chunks * TILE_ROWS;
    w.column_chunk = (panels + column_chunks - 1) / column_chunks * PANEL;
    w.column_chunks = (b->columns + w.column_chunk - 1) / w.column_chunk;
    for (; w.first_group < all; w.first_group += block) {
        w.groups = min_int(block, all - w.first_group);
        w.is_last = w.first_group + w.groups == all, w.adds = w.first_group || p->adds;
        if (!packs) w.a = (const int32_t *)a->data + w.first_group * w.a_group;
        w.panels = p->panels ? p->panels + (size_t)PANEL * (size_t)panels * (size_t)w.first_group : memory + PANEL * panels;
        run_tasks(&used, w.packed_panels + (packs || p->row_sums ? (a->rows + PACKED_ROWS - 1) / PACKED_ROWS : 0), pack_task, &w);
        run_tasks(&used, (a->rows + w.row_chunk - 1) / w.row_chunk * w.column_chunks, multiply_chunk, &w);
    }
    return 0;
}

int mtkit_lanes(void) { return LANES; }
