/* The best next tokens of the hypotheses of a beam, from logits that never leave the cache of the processor. */

enum { BLOCK = 8 * LANES }; /* logits whose maximum is compared first */

typedef struct {
    float total, value; /* logit plus offset, by which candidates are ranked; logit */
    int32_t row, column;
} Candidate;

INLINE float block_maximum(const float *logits) {
    Floats most[4];
    for (int j = 0; j < 4; j++) most[j] = larger(load(logits + (j + 4) * LANES), load(logits + j * LANES));
    return largest_of(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

/* log sum exp of a row of `count` logits, a multiple of BLOCK; the last ones may be -inf. NaN if one is NaN.

   `maxima` are those of the blocks of the row. */
static float log_sum_exp(const float *logits, int count, const float *maxima) {
    Floats total[4] = {splat(0), splat(0), splat(0), splat(0)};
    float largest = -INFINITY;
    for (int b = 0; b < count / BLOCK; b++) largest = maxima[b] > largest ? maxima[b] : largest;
    for (int i = 0; i < count; i += 4 * LANES)
        for (int j = 0; j < 4; j++) total[j] += exponential_of_negative(load(logits + i + j * LANES) - largest);
    return largest + logf(sum_of((total[0] + total[1]) + (total[2] + total[3])));
}

/* Put a candidate into a list of at most `size`, best first; one that is equal to another comes after it. */
INLINE int insert(Candidate *best, int count, int size, Candidate candidate) {
    if (count == size) {
        if (!(candidate.total > best[size - 1].total)) return count;
        count--;
    }
    int i = count;
    for (; i > 0 && candidate.total > best[i - 1].total; i--) best[i] = best[i - 1];
    best[i] = candidate;
    return count + 1;
}

/* Add the logits of a row to the list of its beam; returns the new length of the list. */
static int rank_row(const float *logits, int count, const float *maxima, float offset, int row, Candidate *best,
                    int found, int size) {
    for (int b = 0; b < count / BLOCK; b++) {
        if (found == size && !(maxima[b] + offset > best[size - 1].total)) continue;
        for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++)
            if (logits[i] > -INFINITY && (found < size || logits[i] + offset > best[size - 1].total))
                found = insert(best, found, size, (Candidate){logits[i] + offset, logits[i], row, i});
    }
    return found;
}
