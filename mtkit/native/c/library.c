/* What the loader (mtkit/native/library.py) asks a library before it uses it: which sources it was compiled from, where
   the fields of its structures are, and which instruction sets the processor has. It asks the library `baseline`, which every
   processor of the architecture can run.

   The processor answers here, by CPUID on x86 and by the system on ARM, rather than /proc/cpuinfo: an emulator that runs
   x86 programs answers CPUID for the instructions that it emulates, while the file still lists those of the host. */

#include <stddef.h>
#include <stdio.h>

#include "search.h"
#include "training.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* Hashes of the C sources, and of the Python sources of layers and reference searches (sources.py); the build sets them. */
#ifndef C_HASH
#define C_HASH ""
#define LAYERS_HASH ""
#define SEARCHES_HASH ""
#endif

const char *mtkit_c_hash(void) { return C_HASH; }
const char *mtkit_layers_hash(void) { return LAYERS_HASH; }
const char *mtkit_searches_hash(void) { return SEARCHES_HASH; }

typedef struct {
    const char *name; /* as in hatch_build.py, which has the compiler's options */
    int is_there;
} InstructionSet;

#if defined(__x86_64__)

typedef struct {
    unsigned eax, ebx, ecx, edx;
} Registers;

static Registers cpuid(unsigned leaf, unsigned subleaf) {
    Registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return (Registers){0, 0, 0, 0};
    return r;
}

static int has_bits(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

/* The registers that the system saves when it switches between threads: XCR0, which may be read if OSXSAVE is set. */
static uint64_t saved_registers(void) {
    if (!has_bits(cpuid(1, 0).ecx, 1u << 27)) return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The bits are those of Intel's Software Developer's Manual, volume 2, CPUID. */
static int find_instruction_sets(InstructionSet *sets) {
    const Registers basic = cpuid(1, 0), extended = cpuid(7, 0);
    const Registers further = extended.eax >= 1 ? cpuid(7, 1) : (Registers){0, 0, 0, 0};
    const uint64_t saved = saved_registers();
    const int avx2 = has_bits(saved, 0x6) && has_bits(basic.ecx, 1u << 28 | 1u << 12) /* AVX, FMA */
                     && has_bits(extended.ebx, 1u << 5);
    const int avx512 = avx2 && has_bits(saved, 0xe6) /* and F, DQ, BW, VL */
                       && has_bits(extended.ebx, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
    const int vnni = avx512 && has_bits(extended.ecx, 1u << 11);
    int count = 0;
    sets[count++] = (InstructionSet){"avx512-bf16", vnni && has_bits(further.eax, 1u << 5)};
    sets[count++] = (InstructionSet){"avx512-vnni", vnni};
    sets[count++] = (InstructionSet){"avx512", avx512};
    sets[count++] = (InstructionSet){"avx2-vnni", avx2 && has_bits(further.eax, 1u << 4)};
    sets[count++] = (InstructionSet){"avx2", avx2};
    return count;
}

#elif defined(__aarch64__) && defined(__linux__)

static int find_instruction_sets(InstructionSet *sets) {
    const unsigned long i8mm = 1ul << 13, bf16 = 1ul << 14; /* HWCAP2_I8MM and HWCAP2_BF16; old headers lack them */
    sets[0] = (InstructionSet){"i8mm-bf16", (getauxval(AT_HWCAP2) & (i8mm | bf16)) == (i8mm | bf16)};
    return 1;
}

#elif defined(__aarch64__) && defined(__APPLE__)

static int has_feature(const char *name) {
    int value = 0;
    size_t size = sizeof value;
    return !sysctlbyname(name, &value, &size, NULL, 0) && value;
}

static int find_instruction_sets(InstructionSet *sets) {
    sets[0] = (InstructionSet){
        "i8mm-bf16", has_feature("hw.optional.arm.FEAT_I8MM") && has_feature("hw.optional.arm.FEAT_BF16")};
    return 1;
}

#else

static int find_instruction_sets(InstructionSet *sets) {
    (void)sets;
    return 0;
}

#endif

/* The names of the instruction sets, the fastest first, each followed by a space: those that the processor has, or
   (`all`) those that there are. Returns their length; `names` has room for `size` bytes. */
int mtkit_instruction_sets(int all, char *names, int size) {
    InstructionSet sets[8];
    const int count = find_instruction_sets(sets);
    int length = 0;
    for (int i = 0; i < count && length < size; i++)
        if (all || sets[i].is_there) length += snprintf(names + length, (size_t)(size - length), "%s ", sets[i].name);
    if (length < size) length += snprintf(names + length, (size_t)(size - length), "baseline");
    return length;
}

/* Place and size of each field of the structures that Python shares, and the size of each structure: LAYOUT, which the
   build sets (sources.py), names them in the order of the headers. */
#ifndef LAYOUT
#define LAYOUT
#endif
#define FIELD(structure, field) offsetof(structure, field), sizeof(((structure *)0)->field),
#define SIZE(structure) sizeof(structure),

const int32_t *mtkit_layout(void) {
    static const int32_t layout[] = {LAYOUT 0};
    return layout;
}
