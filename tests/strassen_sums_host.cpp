// strassen_sums.cu on a CPU, one thread after the other. Every access is looked up among the memory that was lent; one
// outside of it is counted and not made.
#include "cuda_words.cuh"

static void changed(unsigned &) {}

struct Lent { std::uintptr_t from, to; };
static const Lent *lent;
static int lent_count;
static long long outside;

static bool allowed(const void *at, unsigned bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    for (int k = 0; k < lent_count; ++k)
        if (address >= lent[k].from && address + bytes <= lent[k].to && address % bytes == 0) return true;
    ++outside;
    return false;
}
template <class Word>
static Word get(const void *from) { return allowed(from, sizeof(Word)) ? *static_cast<const Word *>(from) : Word{}; }
template <class Word>
static void put(void *to, Word word) {
    if (allowed(to, sizeof(Word))) *static_cast<Word *>(to) = word;
}

#include SOURCE

// One launch; gives how many accesses were outside, or not aligned.
extern "C" long long run_sums(const char *in, const char *bias, char *matrix, char *high, char *low,
                              const int *exponents, int exponent_step, int words, long long block_rows,
                              long long rows, long long columns, long long row_stride, long long column_stride,
                              unsigned blocks, const Lent *regions, int region_count) {
    lent = regions, lent_count = region_count, outside = 0;
    in_turn({blocks, 1, 1}, THREADS, [=] {
        brrr_strassen_sums(in, bias, matrix, high, low, exponents, exponent_step, words, block_rows, rows, columns,
                           row_stride, column_stride);
    });
    return outside;
}
