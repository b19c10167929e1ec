/* Memory that a thread uses again in every call. A buffer grows when a call needs more; it is freed when the thread
   ends. Threads share no buffer, so that every function may run on several threads at once. */

#include <pthread.h>

enum { OPERAND, PROJECTION, ATTENTION, WEIGHTS, CANDIDATES, LOGITS, NUM_BUFFERS };

typedef struct {
    void *memory;
    size_t size;
} Buffer;

/* [NUM_BUFFERS], or NULL before the first call of a thread. They are not thread-local themselves, since thread-local
   memory may be gone when `free_buffers` is called. */
static _Thread_local Buffer *buffers;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value in a thread are the buffers of the thread */
static int has_key;

static void free_buffers(void *of_thread) {
    Buffer *buffer = of_thread;
    for (int i = 0; i < NUM_BUFFERS; i++) free(buffer[i].memory);
    free(buffer);
}

static void create_key(void) { has_key = !pthread_key_create(&key, free_buffers); }

static Buffer *create_buffers(void) {
    pthread_once(&once, create_key);
    Buffer *of_thread = calloc(NUM_BUFFERS, sizeof(Buffer));
    if (of_thread && has_key) pthread_setspecific(key, of_thread);
    return of_thread;
}

/* At least `size` bytes, aligned to 64, with the contents of any earlier call; NULL if memory is exhausted. */
static void *reserve(int index, size_t size) {
    if (!buffers && !(buffers = create_buffers())) return NULL;
    Buffer *buffer = buffers + index;
    if (!buffer->memory || buffer->size < size) {
        size = (size + size / 4 + 4096) / 4096 * 4096;
        void *memory = NULL;
        if (posix_memalign(&memory, 64, size)) return NULL;
        free(buffer->memory);
        buffer->memory = memory;
        buffer->size = size;
    }
    return buffer->memory;
}

INLINE float *floats(int index, size_t count) { return reserve(index, 4 * count + 64 * LANES); }
