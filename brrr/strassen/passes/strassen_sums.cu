// The additions of Strassen's algorithm, all levels in one pass over memory: before the products, after them, and both
// together as a layer of a network needs them.
//
// The CPU's version, which the tests compare with, one level:
//
//     left[p] = sum over b of LEFT[p][b] * block b of x              7 buffers from 4 blocks: here "to buffers"
//     block b of y = sum over p of RESULT[b][p] * product[p]         4 blocks from 7 products: here "from products"
//
// A matrix is cut into 2^LEVEL x 2^LEVEL blocks, and a thread holds the VECTOR neighbours of one place in each of them:
// 4^LEVEL words, all loaded at once. From these the 7^LEVEL sums are made depth first: 7 times a quarter as many
// numbers, of each of these 7 times a quarter again, and what is left at the end is stored. So level 3 costs 465
// additions and not 343 x 64, and registers hold 64 + 16 + 4 numbers. The way back is the same in reverse: 7 products
// make 4 numbers, 7 times 4 make 16, 7 times 16 make 64. Between the two nothing is written, unless it is asked for.
//
// Sums are float32 whatever the types. A matrix may end anywhere: beyond its end it is zero, and nothing is read or
// written there. Buffers are whole, and a row of them is a multiple of eight numbers.
//
// What is compiled is chosen by macros, which launch.py writes in front of this text:
//
//     LEVEL                  of both
//     FROM_PRODUCTS          0: the blocks come from a matrix; 1: from products
//     TO_MATRIX              1: they go to a matrix
//     TERMS                  buffers that they go to: 0 none, 1, or 2 where each number is split into two of float16
//     BIAS, BIAS_TYPE, RELU  what follows the products in a layer
//     IN_TYPE                of the products, or of the matrix that is read
//     MATRIX_TYPE, OUT_TYPE  of the matrix that is written, and of the buffers
//     VECTOR                 neighbours a thread takes: 2, 4 or 8, of float32 also 1
//     AHEAD                  7^AHEAD products are loaded together
//     ROLLED                 1: the seven of the outermost level are a loop: the code is short, and registers are few
//     EDGE                   the matrix 0: ends with the blocks; 1: may end after any word; 2: anywhere, any strides
//     THREADS, RESIDENT      of a block; blocks that a multiprocessor has to hold at once: this limits the registers
//     SPREAD_TABLE           a form's sums of the left or the right blocks, 7 x 4
//     COLLECT_TABLE          and of the products, 4 x 7
//
// Read next: launch.py, which launches it. By itself, checked and timed: python -m brrr.strassen.passes.launch
#include "../../gpu/halves.cuh"

[[maybe_unused]] __device__ constexpr signed char SPREAD[7][4] = {SPREAD_TABLE};
[[maybe_unused]] __device__ constexpr signed char COLLECT[4][7] = {COLLECT_TABLE};

constexpr int BLOCKS = 1 << 2 * LEVEL, SIDE = 1 << LEVEL;
constexpr int GROUP = AHEAD < LEVEL ? AHEAD : LEVEL;

// DO(0) DO(1) ... DO(6): for a level's seven, each number a constant
#define SEVEN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)

INLINE constexpr int sevens(int level) { return level == 0 ? 1 : 7 * sevens(level - 1); }

// The number of the block in row i and column j of SIDE x SIDE: their bits in turn.
INLINE constexpr int spaced(int i) { return (i & 1) | (i & 2) << 1 | (i & 4) << 2; }
INLINE constexpr int block_at(int i, int j) { return spaced(i) << 1 | spaced(j); }

// --- types: numbers travel as the 32-bit words that memory holds ---------------------------------------------------

struct F32 { using Word = unsigned; static constexpr int BYTES = 4; };
struct F16 { using Word = unsigned short; static constexpr int BYTES = 2; };
struct BF16 { using Word = unsigned short; static constexpr int BYTES = 2; };

#ifndef ON_HOST
INLINE void changed(unsigned &word) { asm volatile("" : "+r"(word)); }
template <class Word>
INLINE Word get(const void *from) { return __ldg(static_cast<const Word *>(from)); }
template <class Word>
INLINE void put(void *to, Word word) { *static_cast<Word *>(to) = word; }
#endif

// To nearest, ties to even.
INLINE unsigned float_to_bfloat(float x) {
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

INLINE unsigned pair(F16, float low, float high) { return half_of(low) | unsigned(half_of(high)) << 16; }
INLINE unsigned pair(BF16, float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return float_to_bfloat(low) | float_to_bfloat(high) << 16;
#endif
}

INLINE float wide(F32, unsigned word, int) { return __uint_as_float(word); }
INLINE float wide(F16, unsigned word, int upper) { return float_of(upper ? word >> 16 : word & 0xffffu); }
INLINE float wide(BF16, unsigned word, int upper) { return __uint_as_float(upper ? word & 0xffff0000u : word << 16); }

struct Numbers {
    float x[VECTOR];
    INLINE float operator[](int k) const { return x[k]; }
};

// VECTOR numbers as they lie in memory; so a float16 takes half a register until it is added to something.
template <class T>
struct alignas(T::BYTES * VECTOR < 4 ? 4 : T::BYTES * VECTOR < 16 ? T::BYTES * VECTOR : 16) Packed {
    static constexpr int BYTES = T::BYTES * VECTOR, WORDS = (BYTES + 3) / 4, EACH = 4 / T::BYTES;
    unsigned word[WORDS];
    INLINE float operator[](int k) const { return wide(T(), word[k / EACH], k % EACH); }
};

// Numbers are taken anew for each sum that they enter: kept as sums or widened, they would take more registers. So the
// compiler is made to believe that they have changed.
INLINE void renew(const Numbers &) {}
template <class T>
INLINE void renew(Packed<T> &all) {
    UNROLL for (int k = 0; k < Packed<T>::WORDS; ++k) changed(all.word[k]);
}

template <class T>
INLINE Packed<T> packed(T, const Numbers &numbers) {
    Packed<T> all;
    UNROLL for (int k = 0; k < Packed<T>::WORDS; ++k)
        if constexpr (T::BYTES == 4) all.word[k] = __float_as_uint(numbers.x[k]);
        else all.word[k] = pair(T(), numbers.x[2 * k], 2 * k + 1 < VECTOR ? numbers.x[2 * k + 1] : 0.0f);
    return all;
}

// --- memory ----------------------------------------------------------------------------------------------------------

// The widest access to so many bytes.
template <int BYTES> struct Access { using Word = uint4; };
template <> struct Access<8> { using Word = uint2; };
template <> struct Access<4> { using Word = unsigned; };
template <> struct Access<2> { using Word = unsigned short; };

template <class T, class Word = typename Access<Packed<T>::BYTES>::Word>
INLINE Packed<T> load(const char *from) {
    Packed<T> all;
    UNROLL for (int k = 0; 16 * k < Packed<T>::BYTES; ++k) reinterpret_cast<Word *>(&all)[k] = get<Word>(from + 16 * k);
    return all;
}

template <class T, class Word = typename Access<Packed<T>::BYTES>::Word>
INLINE void store(char *to, const Packed<T> &all) {
    UNROLL for (int k = 0; 16 * k < Packed<T>::BYTES; ++k) put(to + 16 * k, reinterpret_cast<const Word *>(&all)[k]);
}

// The numbers at a distance of `stride` bytes, `count` of them; the others are zero.
template <class T>
INLINE Packed<T> load_each(const char *from, long long stride, long long count) {
    Packed<T> all{};
    UNROLL for (int k = 0; k < VECTOR; ++k)
        if (k < count) {
            const unsigned one = get<typename T::Word>(from + k * stride);
            all.word[k / Packed<T>::EACH] |= one << (k % Packed<T>::EACH) * 16;
        }
    return all;
}

// A thread's place in the first block of a matrix of `rows` x `columns`, and how far it is to the same one in the next
// block to the right and below: strides and steps are bytes.
struct Place {
    long long rows, columns, column_stride, right, below, block_rows, block_columns;
};

template <class T>
INLINE void store_each(char *to, const Packed<T> &all, long long stride, long long count) {
    UNROLL for (int k = 0; k < VECTOR; ++k)
        if (k < count)
            put(to + k * stride, typename T::Word(all.word[k / Packed<T>::EACH] >> (k % Packed<T>::EACH) * 16));
}

// Goes over the thread's places, blocks in the order of rows, and calls use(block's number, address, numbers inside).
template <class At, class Use>
INLINE void at_each(At *first, long long row, long long column, const Place &place, Use use) {
    UNROLL for (int i = 0; i < SIDE; ++i) {
        At *at = first;
        long long left = row < place.rows ? place.columns - column : 0;
        UNROLL for (int j = 0; j < SIDE; ++j) {
            use(block_at(i, j), at, EDGE ? left : VECTOR);
            at += place.right;
            left -= place.block_columns;
        }
        first += place.below;
        row += place.block_rows;
    }
}

// --- sums ------------------------------------------------------------------------------------------------------------

// sum + sign * x, where `first` says that there is no sum yet; both are known when it is compiled.
INLINE float add(bool first, int sign, float sum, float x) {
    return sign == 0 ? sum : first ? (sign > 0 ? x : -x) : sign > 0 ? sum + x : sum - x;
}

// The P-th sum of the four quarters of `blocks`, each of COUNT.
template <int P, int COUNT, class Word>
INLINE void combine(const Word (&blocks)[4 * COUNT], Numbers (&sums)[COUNT]) {
    UNROLL for (int i = 0; i < COUNT; ++i)
        UNROLL for (int k = 0; k < VECTOR; ++k) {
            float sum = 0.0f;
            bool first = true;
            UNROLL for (int q = 0; q < 4; ++q)
                if (SPREAD[P][q]) sum = add(first, SPREAD[P][q], sum, blocks[q * COUNT + i][k]), first = false;
            sums[i].x[k] = sum;
        }
}

// Where the next of the 7^LEVEL sums is stored.
struct Buffers {
    char *high, *low;
    long long step;
    float scale;

    INLINE void take(const Numbers &numbers) {
        if constexpr (TERMS == 2) {  // scaled = high + low, but for what is below low's last digit
            Numbers scaled, rest;
            UNROLL for (int k = 0; k < VECTOR; ++k) scaled.x[k] = numbers.x[k] * scale;
            const Packed<F16> upper = packed(F16(), scaled);
            UNROLL for (int k = 0; k < VECTOR; ++k) rest.x[k] = scaled.x[k] - upper[k];
            store<F16>(high, upper);
            store<F16>(low, packed(F16(), rest));
            low += step;
        } else store<OUT_TYPE>(high, packed(OUT_TYPE(), numbers));
        high += step;
    }
};

template <class Word>
INLINE Numbers as_numbers(const Word &word) {
    Numbers all;
    UNROLL for (int k = 0; k < VECTOR; ++k) all.x[k] = word[k];
    return all;
}

// All 7^L sums of 4^L blocks, in the order of the products.
template <int L, class Word>
INLINE void spread(Word (&blocks)[1 << 2 * L], Buffers &buffers) {
    constexpr int COUNT = L == 0 ? 1 : 1 << 2 * (L - 1);
    if constexpr (L == 0) buffers.take(as_numbers(blocks[0]));
    else if constexpr (L == LEVEL && ROLLED) {
#pragma unroll 1
        for (int p = 0; p < 7; ++p) {
            Numbers sums[COUNT];
            UNROLL for (int b = 0; b < 4 * COUNT; ++b) renew(blocks[b]);
            switch (p) {
#define COMBINE(P) case P: combine<P, COUNT>(blocks, sums); break;
                SEVEN(COMBINE)
            }
            spread<L - 1>(sums, buffers);
        }
    } else {
        Numbers sums[COUNT];
#define SPREAD_ONE(P) combine<P, COUNT>(blocks, sums), spread<L - 1>(sums, buffers);
        SEVEN(SPREAD_ONE)
    }
}

// The products in their order, 7^GROUP of them loaded together, so that enough is on its way.
struct Products {
    const char *next;
    long long step;
    Packed<IN_TYPE> ready[sevens(GROUP)];
};

INLINE constexpr bool first_of(int b, int p) {
    for (int q = 0; q < p; ++q)
        if (COLLECT[b][q]) return false;
    return true;
}

// The P-th part, where it belongs among the four quarters of `blocks`.
template <int P, int COUNT>
INLINE void accumulate(const Numbers (&part)[COUNT], Numbers (&blocks)[4 * COUNT]) {
    UNROLL for (int b = 0; b < 4; ++b)
        UNROLL for (int i = 0; i < COUNT; ++i)
            UNROLL for (int k = 0; k < VECTOR; ++k) {
                float &sum = blocks[b * COUNT + i].x[k];
                sum = add(first_of(b, P), COLLECT[b][P], sum, part[i].x[k]);
            }
}

// 4^L blocks from the next 7^L products; AT: the first of these among those that were loaded together.
template <int L, int AT>
INLINE void collect(Products &products, Numbers (&blocks)[1 << 2 * L]) {
    constexpr int COUNT = L == 0 ? 1 : 1 << 2 * (L - 1);
    Numbers part[COUNT];
    if constexpr (L == GROUP)
        UNROLL for (int k = 0; k < sevens(GROUP); ++k, products.next += products.step)
            products.ready[k] = load<IN_TYPE>(products.next);
    if constexpr (L == 0) blocks[0] = as_numbers(products.ready[AT]);
    else if constexpr (L == LEVEL && ROLLED && L > GROUP) {
#pragma unroll 1
        for (int p = 0; p < 7; ++p) {
            collect<L - 1, 0>(products, part);
            switch (p) {
#define ACCUMULATE(P) case P: accumulate<P, COUNT>(part, blocks); break;
                SEVEN(ACCUMULATE)
            }
        }
    } else {
#define COLLECT_ONE(P)                                                                                  \
        collect<L - 1, (L <= GROUP ? AT + P * sevens(L - 1) : 0)>(products, part);                       \
        accumulate<P, COUNT>(part, blocks);
        SEVEN(COLLECT_ONE)
    }
}

// --- what follows the sums in a layer ------------------------------------------------------------------------------

// On all blocks max(x + bias, 0) inside the matrix, zero outside, where the next layer's sums need it; and the matrix
// written, if it is asked for.
INLINE void finish_all(Numbers (&blocks)[BLOCKS], const char *bias, char *first, long long row, long long column,
                       const Place &place) {
    Numbers shift[SIDE] = {};
    constexpr int BYTES = BIAS_TYPE::BYTES;
    if constexpr (BIAS != 0) {
        long long at = column;
        UNROLL for (int j = 0; j < SIDE; ++j, at += place.block_columns)
            shift[j] = as_numbers(load_each<BIAS_TYPE>(bias + at * BYTES, BYTES, place.columns - at));
    }
    at_each(first, row, column, place, [&](int b, char *at, long long inside) {
        UNROLL for (int k = 0; k < VECTOR; ++k) {
            const float x = blocks[b].x[k], sum = BIAS ? x + shift[(b & 1) | (b >> 1 & 2) | (b >> 2 & 4)].x[k] : x;
            blocks[b].x[k] = (RELU && sum < 0.0f) || k >= inside ? 0.0f : sum;  // a NaN stays one
        }
        if constexpr (TO_MATRIX != 0) {
            const Packed<MATRIX_TYPE> all = packed(MATRIX_TYPE(), blocks[b]);
            if constexpr (EDGE == 2) store_each<MATRIX_TYPE>(at, all, place.column_stride, inside);
            else if (inside > 0) store<MATRIX_TYPE>(at, all);
        }
    });
}

// in: the products, or the matrix to read. matrix: the one to write. high, low: the buffers to write. rows, columns and
// the strides, in bytes, are those of the matrix that is read or written; words: words in a row of a block. exponents:
// where numbers are split into two terms, scaled by 2^-exponent, from -126 to 126, one for each row of a block, or with
// exponent_step 0 one for all.
extern "C" __global__ __launch_bounds__(THREADS, RESIDENT) void brrr_strassen_sums(
    const char *__restrict__ in, const char *__restrict__ bias, char *__restrict__ matrix, char *__restrict__ high,
    char *__restrict__ low, const int *__restrict__ exponents, int exponent_step, int words, long long block_rows,
    long long rows, long long columns, long long row_stride, long long column_stride) {
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    if (thread >= block_rows * words) return;
    const long long row = thread / words, column = static_cast<long long>(thread % words) * VECTOR;
    const long long block_columns = static_cast<long long>(words) * VECTOR, size = block_rows * block_columns;
    const Place place{rows, columns, column_stride, block_columns * column_stride, block_rows * row_stride,
                      block_rows, block_columns};
    const long long first = row * row_stride + column * column_stride, number = static_cast<long long>(thread) * VECTOR;
    constexpr int OUT_BYTES = TERMS == 2 ? 2 : OUT_TYPE::BYTES;
    Buffers buffers{high + number * OUT_BYTES, low + number * OUT_BYTES, size * OUT_BYTES,
                    TERMS == 2 ? __uint_as_float(unsigned(127 - exponents[row * exponent_step]) << 23) : 1.0f};
    if constexpr (FROM_PRODUCTS != 0) {
        Products products;
        products.next = in + number * IN_TYPE::BYTES, products.step = size * IN_TYPE::BYTES;
        Numbers blocks[BLOCKS];
        collect<LEVEL, 0>(products, blocks);
        finish_all(blocks, bias, matrix + first, row, column, place);
        if constexpr (TERMS != 0) spread<LEVEL>(blocks, buffers);
    } else {
        Packed<IN_TYPE> blocks[BLOCKS];
        at_each(in + first, row, column, place, [&](int b, const char *at, long long inside) {
            if constexpr (EDGE == 2) blocks[b] = load_each<IN_TYPE>(at, column_stride, inside);
            else blocks[b] = inside > 0 ? load<IN_TYPE>(at) : Packed<IN_TYPE>{};
        });
        spread<LEVEL>(blocks, buffers);
    }
}
