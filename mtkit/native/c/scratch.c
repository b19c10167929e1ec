#include "scratch.h"

#include <pthread.h>

typedef struct {
    void *memory;
    size_t size;
} Buffer;

/* [NUM_SLOTS], or NULL before the first call of a thread. They are not thread-local themselves, since thread-local
   memory may be gone when `free_buffers` is called. */
static _Thread_local Buffer *buffers;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_buffers;
static int has_thread_buffers;

static void free_buffers(void *of_thread) {
    Buffer *buffer = of_thread;
    for (int i = 0; i < NUM_SLOTS; i++) free(buffer[i].memory);
    free(buffer);
}

static void create_key(void) { has_thread_buffers = !pthread_key_create(&thread_buffers, free_buffers); }

static Buffer *create_buffers(void) {
    pthread_once(&once, create_key);
    Buffer *of_thread = calloc(NUM_SLOTS, sizeof(Buffer));
    if (of_thread && has_thread_buffers) pthread_setspecific(thread_buffers, of_thread);
    return of_thread;
}

void *scratch(ScratchSlot slot, size_t size) {
    if (!buffers && !(buffers = create_buffers())) return NULL;
    Buffer *buffer = buffers + slot;
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
