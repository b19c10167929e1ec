/* What the library is, for the check that Python makes when it loads it. */

#include "search.h"

int mtkit_lanes(void) { return LANES; }

int mtkit_has_type(int type) { return type >= 0 && type < NUM_TYPES; }

/* Sizes of the structures that Python declares too, by their place in STRUCTURES of mtkit/inference/structures.py. */
int64_t mtkit_sizeof(int structure) {
    static const size_t sizes[] = {sizeof(Linear), sizeof(Norm),        sizeof(Layer),    sizeof(Stack), sizeof(Cache),
                                   sizeof(Step),   sizeof(Constraints), sizeof(Sampling), sizeof(Pruned), sizeof(Task)};
    return structure >= 0 && structure < (int)(sizeof sizes / sizeof *sizes) ? (int64_t)sizes[structure] : -1;
}
