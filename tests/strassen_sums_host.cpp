// strassen_sums.cu on a CPU: CUDA's words mean just enough for its kernel to run, one thread after the other. Every
// access is looked up among the memory that was lent; one outside of it is counted and not made.
#include <cmath>
#include <cstdint>
#include <cstring>
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define ON_HOST

struct Index { unsigned x; };
static Index blockIdx, threadIdx;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }

// The compiler's own conversions round to nearest, ties to even, as the GPU does.
static float half_to_float(unsigned bits) {
    const unsigned short lower = static_cast<unsigned short>(bits);
    _Float16 x;
    std::memcpy(&x, &lower, 2);
    return static_cast<float>(x);
}
static unsigned float_to_half(float x) {
    const _Float16 rounded = static_cast<_Float16>(x);
    unsigned short bits;
    std::memcpy(&bits, &rounded, 2);
    return bits;
}
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
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < THREADS; ++threadIdx.x)
            brrr_strassen_sums(in, bias, matrix, high, low, exponents, exponent_step, words, block_rows, rows, columns,
                               row_stride, column_stride);
    return outside;
}
