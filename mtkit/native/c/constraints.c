#include "constraints.h"

#include "scratch.h"

#define FORCED_LOG_PROB -100.0f /* of a forced token that another constraint excludes */

int begin_constraints(Constrainer *constrainer, const Constraints *constraints) {
    const size_t count = constraints ? (size_t)constraints->num_text_bytes : 0;
    *constrainer = (Constrainer){constraints, count ? calloc(count, sizeof(Completions)) : NULL};
    return !count || constrainer->completions;
}

void end_constraints(Constrainer *constrainer) {
    for (int i = 0; constrainer->completions && i < constrainer->constraints->num_text_bytes; i++)
        free(constrainer->completions[i].tokens);
    free(constrainer->completions);
}

int forced_token(const Constraints *constraints, int sentence, int length) {
    const int32_t *first = constraints->first_prefix + sentence;
    return length < first[1] - first[0] ? constraints->prefixes[first[0] + length] : -1;
}

/* ---- repetition penalty ---- */

/* Multiply the log-probabilities of used tokens. */
static int penalise_repetition(Constrainer *constrainer, const Hypothesis *hypothesis, Logits *logits) {
    const float penalty = constrainer->constraints->repetition_penalty;
    for (int t = 0; penalty && t < hypothesis->length; t++)
        logits->values[hypothesis->tokens[t]] =
            hypothesis->normaliser + penalty * (hypothesis->model_logits[t] - hypothesis->normaliser);
    return 1;
}

static int undo_penalty(const Constraints *constraints, const Hypothesis *hypothesis, int token, float *logit) {
    for (int t = 0; constraints->repetition_penalty && t < hypothesis->length; t++)
        if (hypothesis->tokens[t] == token) {
            *logit = hypothesis->model_logits[t];
            return 1;
        }
    return 0;
}

/* ---- no n-gram twice ---- */

/* Exclude tokens that would complete an n-gram which the hypothesis contains already. */
static int exclude_repeated_ngrams(Constrainer *constrainer, const Hypothesis *hypothesis, Logits *logits) {
    const int size = constrainer->constraints->no_repeat_ngram;
    if (!size || hypothesis->length < size) return 1;
    const int32_t *recent = hypothesis->tokens + hypothesis->length - (size - 1);
    for (int i = 0; i + size <= hypothesis->length; i++) {
        int is_equal = 1;
        for (int j = 0; j < size - 1; j++) is_equal &= hypothesis->tokens[i + j] == recent[j];
        if (is_equal) logits->values[hypothesis->tokens[i + size - 1]] = -INFINITY;
    }
    return 1;
}

/* ---- excluded texts ---- */

/* The last bytes of a hypothesis, at most `size`, at the end of `buffer` [size]; returns their number. */
static int copy_last_bytes(const Constraints *constraints, const Hypothesis *hypothesis, uint8_t *buffer, int size) {
    int count = 0;
    for (int t = hypothesis->length - 1; t >= 0 && count < size; t--) {
        const int32_t *first = constraints->first_token_byte + hypothesis->tokens[t];
        for (int i = first[1] - 1; i >= first[0] && count < size; i--)
            buffer[size - ++count] = constraints->token_bytes[i];
    }
    return count;
}

/* Length of the longest beginning of a text, shorter than the text, with which the `count` bytes before `end` end. */
static int overlap(const uint8_t *end, int count, const uint8_t *text, int length) {
    int size = count < length - 1 ? count : length - 1;
    while (size && memcmp(end - size, text, (size_t)size)) size--;
    return size;
}

/* Find the tokens that complete a text of which `matched` bytes are there (Knuth, Morris and Pratt 1977). */
static int find_completions(const Constraints *constraints, int text, int matched, Completions *found) {
    const uint8_t *bytes = constraints->text_bytes + constraints->first_text_byte[text];
    const int length = constraints->first_text_byte[text + 1] - constraints->first_text_byte[text];
    int32_t *tokens = malloc(sizeof(int32_t) * (size_t)constraints->vocab_size);
    int32_t *border = malloc(sizeof(int32_t) * (size_t)length); /* of each beginning of the text */
    if (!tokens || !border) {
        free(tokens), free(border);
        return 0;
    }
    for (int i = 0; i < length; i++) border[i] = overlap(bytes + i + 1, i, bytes, i + 1);
    int count = 0;
    for (int token = 0; token < constraints->vocab_size; token++) {
        int state = matched, is_complete = 0;
        const int32_t *first = constraints->first_token_byte + token;
        for (int i = first[0]; i < first[1] && !is_complete; i++) {
            const uint8_t byte = constraints->token_bytes[i];
            while (state && bytes[state] != byte) state = border[state - 1];
            state += bytes[state] == byte;
            is_complete = state == length;
        }
        if (is_complete) tokens[count++] = token;
    }
    free(border);
    int32_t *fitted = realloc(tokens, sizeof(int32_t) * (size_t)(count ? count : 1));
    *found = (Completions){fitted ? fitted : tokens, count};
    return 1;
}

/* Exclude tokens that would complete an excluded text. */
static int exclude_texts(Constrainer *constrainer, const Hypothesis *hypothesis, Logits *logits) {
    const Constraints *constraints = constrainer->constraints;
    const int32_t *first = constraints->first_excluded + hypothesis->sentence;
    if (first[0] == first[1]) return 1;
    int longest = 0;
    for (int i = first[0]; i < first[1]; i++) {
        const int32_t *bytes = constraints->first_text_byte + constraints->excluded_texts[i];
        longest = bytes[1] - bytes[0] > longest ? bytes[1] - bytes[0] : longest;
    }
    uint8_t *last_bytes = scratch(LAST_BYTES, (size_t)longest);
    if (!last_bytes) return 0;
    const int count = copy_last_bytes(constraints, hypothesis, last_bytes, longest);
    for (int i = first[0]; i < first[1]; i++) {
        const int text = constraints->excluded_texts[i], begin = constraints->first_text_byte[text];
        const int length = constraints->first_text_byte[text + 1] - begin;
        const int matched = overlap(last_bytes + longest, count, constraints->text_bytes + begin, length);
        Completions *completions = constrainer->completions + begin + matched;
        if (!completions->tokens && !find_completions(constraints, text, matched, completions)) return 0;
        for (int c = 0; c < completions->count; c++) logits->values[completions->tokens[c]] = -INFINITY;
    }
    return 1;
}

/* ---- forced prefix ---- */

/* Leave the forced token alone, even if an earlier constraint excludes it. */
static int force(Constrainer *constrainer, const Hypothesis *hypothesis, Logits *logits) {
    const Constraints *constraints = constrainer->constraints;
    const int token = forced_token(constraints, hypothesis->sentence, hypothesis->length);
    if (token < 0) return 1;
    const float log_prob = logits->values[token] - hypothesis->normaliser;
    for (int i = 0; i < logits->count; i++) logits->values[i] = -INFINITY;
    logits->values[token] = hypothesis->normaliser + (log_prob < FORCED_LOG_PROB ? FORCED_LOG_PROB : log_prob);
    if (hypothesis->length < constraints->num_free) logits->values[token] = hypothesis->normaliser;
    return 1;
}

static int undo_force(const Constraints *constraints, const Hypothesis *hypothesis, int token, float *logit) {
    if (token != forced_token(constraints, hypothesis->sentence, hypothesis->length)) return 0;
    *logit = hypothesis->model_logits[hypothesis->length];
    return 1;
}

/* ---- all constraints ---- */

/* `apply` changes the logits that follow a hypothesis, unless the constraint is off; it returns 0 if memory is exhausted.
   `undo` sets the logit of a token that was changed to another one than -inf to the model's, and returns whether it did;
   NULL: there are no such changes. */
typedef struct {
    int (*apply)(Constrainer *constrainer, const Hypothesis *hypothesis, Logits *logits);
    int (*undo)(const Constraints *constraints, const Hypothesis *hypothesis, int token, float *logit);
} Constraint;

static const Constraint CONSTRAINTS[] = {
    /* in the order in which they are applied */
    {penalise_repetition, undo_penalty},
    {exclude_repeated_ngrams, NULL},
    {exclude_texts, NULL},
    {force, undo_force},
};
enum { NUM_CONSTRAINTS = sizeof CONSTRAINTS / sizeof *CONSTRAINTS };

int constrain(Constrainer *constrainer, Hypothesis *hypothesis, Logits *logits) {
    const int forced = forced_token(constrainer->constraints, hypothesis->sentence, hypothesis->length);
    for (int t = 0; t < hypothesis->length; t++) hypothesis->model_logits[t] = logits->values[hypothesis->tokens[t]];
    if (forced >= 0) hypothesis->model_logits[hypothesis->length] = logits->values[forced];
    for (int i = 0; i < NUM_CONSTRAINTS; i++)
        if (!CONSTRAINTS[i].apply(constrainer, hypothesis, logits)) return 0;
    update_all_maxima(logits);
    return 1;
}

float unconstrained_logit(const Constraints *constraints, const Hypothesis *hypothesis, int token, float logit) {
    for (int i = NUM_CONSTRAINTS - 1; i >= 0; i--)
        if (CONSTRAINTS[i].undo && CONSTRAINTS[i].undo(constraints, hypothesis, token, &logit)) break;
    return logit;
}
