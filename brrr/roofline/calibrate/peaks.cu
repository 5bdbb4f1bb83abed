// Kernels that move memory and do nothing else: what they reach is what the memory, or the L2 cache, can do.
// Each goes over `count` words of 16 bytes, wrapping round until `total` words are done. total = count is one pass, as
// any elementwise kernel makes; with more, the start and the end of the kernel no longer weigh, and all threads have
// work even on a small set, so that what remains is the rate of the level of memory that holds the set.
//
// Little's law says what has to be in flight: 4.8 TB/s times 700 ns are 3.4 MB, 25 KB for each of 132 multiprocessors.
// 2048 threads with four loads of 16 bytes each ask for 128 KB, so the memory is the limit, not the asking.

#define UNROLL _Pragma("unroll")
constexpr int IN_FLIGHT = 4;

// Loads past L1: it is not what is measured, and a second pass over a small set would find its words there. `volatile`,
// so that no load can be taken for one made before.
__device__ __forceinline__ uint4 load_past_l1(const uint4 *from) {
    uint4 word;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
    return word;
}

// What is left of `number` when `count` is taken off as often as possible; on one pass there is nothing to divide.
__device__ __forceinline__ unsigned wrapped(unsigned number, unsigned count) {
    return number < count ? number : number % count;
}

// The place that is `step` further, where behind the last of `count` comes the first: step is less than count.
__device__ __forceinline__ unsigned further(unsigned place, unsigned step, unsigned count) {
    place += step;
    return place >= count ? place - count : place;
}

// Every thread of the grid takes each gridDim * blockDim-th word: it loads four, then uses four.
template <class Word, class Load, class Use>
__device__ __forceinline__ void sweep(unsigned count, unsigned total, Load load, Use use) {
    const unsigned threads = gridDim.x * blockDim.x;
    const unsigned step = wrapped(threads, count);
    unsigned done = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned place = wrapped(done, count);
    for (; done + (IN_FLIGHT - 1) * threads < total; done += IN_FLIGHT * threads) {
        unsigned places[IN_FLIGHT];
        Word words[IN_FLIGHT];
        UNROLL for (int k = 0; k < IN_FLIGHT; ++k) {
            places[k] = place;
            place = further(place, step, count);
        }
        UNROLL for (int k = 0; k < IN_FLIGHT; ++k) words[k] = load(places[k]);
        UNROLL for (int k = 0; k < IN_FLIGHT; ++k) use(places[k], words[k]);
    }
    for (; done < total; done += threads) {
        use(place, load(place));
        place = further(place, step, count);
    }
}

extern "C" __global__ void brrr_stream_copy(const uint4 *in, uint4 *out, unsigned count, unsigned total) {
    sweep<uint4>(
        count, total, [=](unsigned i) { return load_past_l1(in + i); }, [=](unsigned i, uint4 word) { out[i] = word; });
}

// Adds up all 32-bit words, modulo 2^32, and leaves one sum for each warp: the sums together show that every word came.
extern "C" __global__ void brrr_stream_read(const uint4 *in, unsigned *sums, unsigned count, unsigned total) {
    unsigned sum = 0;
    sweep<uint4>(
        count, total, [=](unsigned i) { return load_past_l1(in + i); },
        [&sum](unsigned, uint4 word) { sum += word.x + word.y + word.z + word.w; });
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = sum;
}

// Writes first, first + 1, first + 2, ... as 32-bit words.
extern "C" __global__ void brrr_stream_write(uint4 *out, unsigned first, unsigned count, unsigned total) {
    sweep<unsigned>(
        count, total, [=](unsigned i) { return first + 4 * i; },
        [=](unsigned i, unsigned word) { out[i] = make_uint4(word, word + 1, word + 2, word + 3); });
}

struct Pair {
    uint4 b, c;
};

// a = b + scale * c on floats: two arrays read, one written, as in J. McCalpin's STREAM.
extern "C" __global__ void brrr_stream_triad(const uint4 *b, const uint4 *c, float4 *a, float scale, unsigned count,
                                             unsigned total) {
    sweep<Pair>(
        count, total, [=](unsigned i) { return Pair{load_past_l1(b + i), load_past_l1(c + i)}; },
        [=](unsigned i, Pair in) {
            a[i] = make_float4(__fmaf_rn(scale, __uint_as_float(in.c.x), __uint_as_float(in.b.x)),
                               __fmaf_rn(scale, __uint_as_float(in.c.y), __uint_as_float(in.b.y)),
                               __fmaf_rn(scale, __uint_as_float(in.c.z), __uint_as_float(in.b.z)),
                               __fmaf_rn(scale, __uint_as_float(in.c.w), __uint_as_float(in.b.w)));
        });
}

// The shortest kernel there is.
extern "C" __global__ void brrr_nothing() {}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels that compute and touch memory only at their end: what the arithmetic units can do.
// Each thread advances eight independent chains x = step(x), so that a unit never waits for the result before. The
// factor and the addend are given at run time and each step is a function that names its rounding, so the compiler
// can neither fold nor fuse nor drop a step; the chains' ends are written out and compared with the recurrence's
// solution.

constexpr int CHAINS = 8;
constexpr int STEPS_A_ROUND = 32;

// Where the n-th chain begins: between 0.5 and 1, without rounding in any of the types.
template <class Number>
__device__ __forceinline__ Number start(unsigned n) {
    return Number(0.5) + static_cast<Number>(n % 1024) / Number(2048);
}

template <class Number, class Step>
__device__ __forceinline__ void advance(Number *ends, int rounds, Step step) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    Number x[CHAINS];
    UNROLL for (int c = 0; c < CHAINS; ++c) x[c] = start<Number>(thread + c * threads);
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        UNROLL for (int s = 0; s < STEPS_A_ROUND; ++s) {
            UNROLL for (int c = 0; c < CHAINS; ++c) x[c] = step(x[c]);
        }
    }
    UNROLL for (int c = 0; c < CHAINS; ++c) ends[thread + c * threads] = x[c];
}

// A multiplication and an addition in one instruction: 2 FLOP.
extern "C" __global__ void brrr_fp32_fma(float *ends, float factor, float addend, int rounds) {
    advance(ends, rounds, [=](float x) { return __fmaf_rn(x, factor, addend); });
}

// The same two operations as two instructions, each with its own rounding.
extern "C" __global__ void brrr_fp32_mul_add(float *ends, float factor, float addend, int rounds) {
    advance(ends, rounds, [=](float x) { return __fadd_rn(__fmul_rn(x, factor), addend); });
}

// A multiplication alone: 1 FLOP in the instruction that could have done 2.
extern "C" __global__ void brrr_fp32_mul(float *ends, float factor, float, int rounds) {
    advance(ends, rounds, [=](float x) { return __fmul_rn(x, factor); });
}

extern "C" __global__ void brrr_fp64_fma(double *ends, float factor, float addend, int rounds) {
    const double a = factor, b = addend;
    advance(ends, rounds, [=](double x) { return __fma_rn(x, a, b); });
}

extern "C" __global__ void brrr_fp64_mul(double *ends, float factor, float, int rounds) {
    const double a = factor;
    advance(ends, rounds, [=](double x) { return __dmul_rn(x, a); });
}
