// float32 matrices as two float16 terms along k, x = (hi + lo) 2^e, one e a row of terms: up to two operands a launch.
//
// An operand whose rows lie along k is read once: a row is held in registers while its largest number is found. One that
// lies across (row-major (k, rows), as a right operand does) has each row of terms in a column. Tiles of 64 x 64 are read
// first for the columns' largest numbers, and again, not much later, to be split, turned in shared memory and written:
// the second time they are still in the L2 cache, so that memory is read once.
//
// Blocks are as many as fit at once, and block b does tasks b, b + blocks, ...: a task waits for earlier ones only, which
// are done or begun, so that none waits forever. What they count in memory they leave at zero.
//
// What a split may lose is noted on the way, and brrr_guard decides by it, without the host, whether the classical product
// replaces the result: `peaks` are the places along k where a row of the left operand is largest, `inner` the largest
// numbers of the right operand at each place along k.
//
// Read next: operands_kernel.py, which launches it. By itself, checked and timed: python -m brrr.strassen.split.operands_kernel
#include "../../gpu/halves.cuh"
#ifndef ON_HOST  // a test emulates on the CPU what stands here
INLINE unsigned seen(const unsigned *counter) {  // with all that was written before it was raised
    unsigned count;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    return count;
}
#define SHARED(Type, name) __shared__ Type name
#endif

using u16 = unsigned short;
constexpr int THREADS = 256, HELD = 8, TILE = 64, PIECES = TILE / 4;  // pieces: four numbers along k or across

struct Operand {
    const float *x;
    u16 *hi, *lo;
    int *exponents;
    unsigned *sizes, *counters;  // of columns, of strips of 64 columns: zeros, before and after
    unsigned *peaks, *inner;     // k numbers, zeros before; either may be null
    long long x_row;             // stride, in numbers
    int rows, k, width;          // of terms; zeros fill up their width
    int turned, whole;           // whole: four numbers may be read at once
    int threads;                 // of a row
    int deep, across, tiles;     // of a turned operand: tiles along k, across, and all
    int lag, tasks;              // so many tiles' maxima are found before the first tile is turned
    int together, strips;        // tasks of rows, and behind them tasks that look along k over the same rows; 0: none
};
struct Operands {
    Operand each[2];
};

struct Shared {
    uint2 hi[TILE][PIECES], lo[TILE][PIECES];
    unsigned largest[PIECES][TILE], along[TILE][PIECES];
    unsigned of_warp[THREADS / 32], last;
};

// float32's bits of |x|, which are in the order of the numbers; zero for infinity and NaN.
INLINE unsigned size_of(float x) {
    const unsigned bits = __float_as_uint(x) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0u;
}
INLINE unsigned size_of(const float4 &x) {
    return max(max(size_of(x.x), size_of(x.y)), max(size_of(x.z), size_of(x.w)));
}
// The largest number is scaled to lie from 2^14 to 2^15, inside float16's range.
INLINE int exponent_of(unsigned size) { return static_cast<int>(size >> 23) - 141; }

struct Pair { u16 hi, lo; };
INLINE Pair terms_of(float x, const Scale &scale) {
    const float scaled = scale.of(x);
    const u16 hi = half_of(scaled);
    const float rest = scaled - float_of(hi);
    return {hi, half_of(rest - rest == 0.0f ? rest : 0.0f)};
}
INLINE uint2 packed(u16 a, u16 b, u16 c, u16 d) {
    return make_uint2(a | static_cast<unsigned>(b) << 16, c | static_cast<unsigned>(d) << 16);
}

// Numbers at, at + 1, ... of a line that ends before `end`; zeros behind it.
template <class Matrix>
INLINE float4 load_four(const Matrix &o, const float *line, int at, int end) {
    if (o.whole && at + 4 <= end) return *reinterpret_cast<const float4 *>(line + at);
    return make_float4(at < end ? line[at] : 0.0f, at + 1 < end ? line[at + 1] : 0.0f, at + 2 < end ? line[at + 2] : 0.0f,
                       at + 3 < end ? line[at + 3] : 0.0f);
}
INLINE void store_four(const Operand &o, long long to, const float4 &x, const Scale &scale) {
    const Pair a = terms_of(x.x, scale), b = terms_of(x.y, scale), c = terms_of(x.z, scale), d = terms_of(x.w, scale);
    *reinterpret_cast<uint2 *>(o.hi + to) = packed(a.hi, b.hi, c.hi, d.hi);
    *reinterpret_cast<uint2 *>(o.lo + to) = packed(a.lo, b.lo, c.lo, d.lo);
}

// The largest of `threads` threads, whole warps.
INLINE unsigned largest_of(unsigned size, Shared &shared, int threads) {
    size = __reduce_max_sync(~0u, size);
    if (threads == 32) return size;
    const int warp = threadIdx.x / 32, count = threads / 32, first = warp / count * count;
    if (threadIdx.x % 32 == 0) shared.of_warp[warp] = size;
    __syncthreads();
    for (int i = 0; i < count; ++i) size = max(size, shared.of_warp[first + i]);
    return size;
}

INLINE float part_of(const float4 &x, int j) {
    return j == 0 ? x.x : j == 1 ? x.y : j == 2 ? x.z : x.w;
}
INLINE void grow(unsigned (&size)[4], const float4 &x) {
    UNROLL for (int i = 0; i < 4; ++i) size[i] = max(size[i], size_of(part_of(x, i)));
}
// Where a row is as large as anywhere.
INLINE void mark_peaks(const Operand &o, int k, const float4 &x, unsigned largest) {
    UNROLL for (int i = 0; i < 4; ++i) if (size_of(part_of(x, i)) == largest) o.peaks[k + i] = 1;
}

constexpr int ROWS_TOGETHER = 32, AHEAD = 8;

// The largest numbers at places along k, of ROWS_TOGETHER rows, which the tasks before have just read.
INLINE void look_along(const Operand &o, int first_row, int strip) {
    const int k = 4 * (strip * THREADS + threadIdx.x), last = min(first_row + ROWS_TOGETHER, o.rows);
    if (k >= o.k) return;
    const float *from = o.x + first_row * o.x_row;
    unsigned size[4] = {0, 0, 0, 0};
    for (int row = first_row; row < last; row += AHEAD, from += AHEAD * o.x_row) {
        float4 x[AHEAD];
        const bool whole = o.whole && k + 4 <= o.k && row + AHEAD <= last;
        UNROLL for (int i = 0; i < AHEAD; ++i)
            x[i] = whole ? *reinterpret_cast<const float4 *>(from + i * o.x_row + k)
                         : load_four(o, from + i * o.x_row, k, row + i < last ? o.k : 0);
        UNROLL for (int i = 0; i < AHEAD; ++i) grow(size, x[i]);
    }
    UNROLL for (int i = 0; i < 4; ++i)
        if (size[i]) atomicMax(o.inner + k + i, size[i]);
}

// As many rows as have room in a block; of a row longer than a block's threads hold, the rest is read twice.
INLINE void split_rows(const Operand &o, int task, Shared &shared) {
    const int high = THREADS / o.threads, blocks = (o.rows + high - 1) / high, step = 4 * o.threads;
    if (o.strips) {
        const int group = task / (o.together + o.strips), place = task % (o.together + o.strips);
        if (place >= o.together) return look_along(o, group * ROWS_TOGETHER, place - o.together);
        task = group * o.together + place;
        if (task >= blocks) return;
    }
    const int row = task * high + threadIdx.x / o.threads, start = threadIdx.x % o.threads * 4;
    const bool inside = row < o.rows;
    const int end = inside ? o.k : 0, width = inside ? o.width : 0;
    const float *line = o.x + row * o.x_row;
    const long long at = row;
    float4 held[HELD];
    unsigned size = 0;
    UNROLL for (int i = 0; i < HELD; ++i) held[i] = load_four(o, line, start + i * step, end);
    UNROLL for (int i = 0; i < HELD; ++i) size = max(size, size_of(held[i]));
    for (int k = start + HELD * step; k < end; k += step) size = max(size, size_of(load_four(o, line, k, end)));
    const unsigned largest = largest_of(size, shared, o.threads);
    const int e = exponent_of(largest);
    if (inside && start == 0) o.exponents[row] = e;
    const Scale scale(-e);
    UNROLL for (int i = 0; i < HELD; ++i)
        if (start + i * step < width) store_four(o, at * o.width + start + i * step, held[i], scale);
    for (int k = start + HELD * step; k < width; k += step)
        store_four(o, at * o.width + k, load_four(o, line, k, end), scale);
    if (o.peaks && largest && size == largest)  // few threads: they read their numbers again
#pragma unroll 1
        for (int k = start; k < end; k += step) mark_peaks(o, k, load_four(o, line, k, end), largest);
}

// A tile of a turned operand; a thread's part of it is 4 x 4, from (k, column) on.
struct Tile {
    int strip, first_k, first_column, k, column;
    INLINE Tile(const Operand &o, int index) {
        strip = index / o.deep, first_k = index % o.deep * TILE, first_column = strip * TILE;
        k = first_k + threadIdx.x / PIECES * 4, column = first_column + threadIdx.x % PIECES * 4;
    }
};
INLINE void load_part(const Operand &o, const Tile &tile, float4 (&x)[4]) {
    UNROLL for (int i = 0; i < 4; ++i)
        x[i] = load_four(o, o.x + (tile.k + i) * o.x_row, tile.column, tile.k + i < o.k ? o.rows : 0);
}

INLINE void find_largest(const Operand &o, int index, Shared &shared) {
    const Tile tile(o, index);
    float4 x[4];
    load_part(o, tile, x);
    unsigned size[4] = {0, 0, 0, 0};
    UNROLL for (int i = 0; i < 4; ++i) grow(size, x[i]);
    UNROLL for (int j = 0; j < 4; ++j) {
        shared.largest[threadIdx.x / PIECES][threadIdx.x % PIECES * 4 + j] = size[j];
        shared.along[threadIdx.x / PIECES * 4 + j][threadIdx.x % PIECES] = size_of(x[j]);
    }
    __syncthreads();
    if (const int place = static_cast<int>(threadIdx.x) - TILE; o.inner && place >= 0 && place < TILE) {
        unsigned most = 0;
        for (int i = 0; i < PIECES; ++i) most = max(most, shared.along[place][i]);
        if (most) atomicMax(o.inner + tile.first_k + place, most);
    }
    const int column = tile.first_column + threadIdx.x;
    if (threadIdx.x < TILE && column < o.rows) {
        unsigned most = 0;
        for (int i = 0; i < PIECES; ++i) most = max(most, shared.largest[i][threadIdx.x]);
        atomicMax(o.sizes + column, most);
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(o.counters + tile.strip, 1u);
}

// Pieces of a row of shared memory are permuted, so that neither writing nor reading meets a bank twice.
INLINE void turn(const Operand &o, int index, Shared &shared) {
    const Tile tile(o, index);
    const int piece = threadIdx.x / PIECES, group = threadIdx.x % PIECES;
    float4 x[4];
    load_part(o, tile, x);
    if (threadIdx.x == 0)
        while (seen(o.counters + tile.strip) < static_cast<unsigned>(o.deep)) {}
    __syncthreads();
    UNROLL for (int j = 0; j < 4; ++j) {
        const int column = tile.column + j;
        const unsigned largest = column < o.rows ? __ldcg(o.sizes + column) : 0u;  // all of the strip's tiles were seen
        const Scale scale(-exponent_of(largest));
        Pair part[4];
        UNROLL for (int i = 0; i < 4; ++i) {
            part[i] = terms_of(part_of(x[i], j), scale);
            if (o.peaks && largest && size_of(part_of(x[i], j)) == largest) o.peaks[tile.k + i] = 1;
        }
        shared.hi[4 * group + j][piece ^ group] = packed(part[0].hi, part[1].hi, part[2].hi, part[3].hi);
        shared.lo[4 * group + j][piece ^ group] = packed(part[0].lo, part[1].lo, part[2].lo, part[3].lo);
        if (tile.k == 0 && column < o.rows) o.exponents[column] = exponent_of(largest);
    }
    __syncthreads();
    UNROLL for (int i = 0; i < TILE * PIECES / THREADS; ++i) {
        const int row = (threadIdx.x + i * THREADS) / PIECES, from = threadIdx.x % PIECES;
        const int k = tile.first_k + 4 * from, column = tile.first_column + row;
        if (column >= o.rows || k >= o.width) continue;
        const long long to = static_cast<long long>(column) * o.width + k;
        *reinterpret_cast<uint2 *>(o.hi + to) = shared.hi[row][from ^ row / 4];
        *reinterpret_cast<uint2 *>(o.lo + to) = shared.lo[row][from ^ row / 4];
    }
    if (threadIdx.x == 0) shared.last = atomicAdd(o.counters + tile.strip, 1u) == 2u * o.deep - 1;
    __syncthreads();
    if (!shared.last) return;  // the last of a strip: nobody reads its sizes any more
    const int column = tile.first_column + threadIdx.x;
    if (threadIdx.x < TILE && column < o.rows) o.sizes[column] = 0;
    if (threadIdx.x == 0) o.counters[tile.strip] = 0;
}

// Tiles' maxima by themselves, then by turns with the tiles `lag` before them, and then the last tiles.
INLINE void split_columns(const Operand &o, int task, Shared &shared) {
    const int both = task - o.lag, twice = 2 * (o.tiles - o.lag);
    if (both < 0) find_largest(o, task, shared);
    else if (both >= twice) turn(o, task - o.tiles, shared);
    else if (both % 2 == 0) find_largest(o, o.lag + both / 2, shared);
    else turn(o, both / 2, shared);
}

extern "C" __global__ __launch_bounds__(THREADS, 4) void brrr_split_operands(const __grid_constant__ Operands operands) {
    SHARED(Shared, shared);
    const int first = operands.each[0].tasks, all = first + operands.each[1].tasks;
    for (int task = blockIdx.x; task < all; task += gridDim.x) {
        const Operand &o = operands.each[task >= first];
        if (o.turned) split_columns(o, task >= first ? task - first : task, shared);
        else split_rows(o, task >= first ? task - first : task, shared);
        __syncthreads();  // before shared memory is written again
    }
}

// For sums of blocks that will be split: one exponent for the rows that are summed, row r of each of `groups` blocks.
struct Summed {
    const float *x;
    int *exponents;   // block_rows
    long long x_row;  // stride, in numbers
    int rows, k, block_rows, groups;
    int gain, whole;  // gain: binary places that sums may have more than their parts; whole: as above
};

extern "C" __global__ __launch_bounds__(THREADS, 4) void brrr_split_exponents(const __grid_constant__ Summed o) {
    SHARED(Shared, shared);
    unsigned size = 0;
    for (int group = 0; group < o.groups; ++group) {
        const int row = group * o.block_rows + blockIdx.x, end = row < o.rows ? o.k : 0;
        const float *line = o.x + row * o.x_row;
#pragma unroll 4
        for (int k = 4 * threadIdx.x; k < end; k += 4 * THREADS) size = max(size, size_of(load_four(o, line, k, end)));
    }
    size = largest_of(size, shared, THREADS);
    const int e = static_cast<int>(size >> 23) - 126 + o.gain - 15;  // the largest is below 2^(its places)
    if (threadIdx.x == 0) o.exponents[blockIdx.x] = max(-110, min(e, 126));
}

// The classical product in float32, by fused multiplications and additions, where a split product may have lost digits.
//
// A term is exact to 2^-40 of the largest number of its row. So row i of the result is wrong by at most about 2^-40 sqrt(k)
// times the largest a of row i times the largest b of all, and it is itself about as large as that a times the largest b
// that it is multiplied with. If that b is more than 2^12 times smaller than the largest of all, digits may be lost.
struct Guard {
    const float *a, *b;
    float *out;
    unsigned *peaks, *inner;  // k numbers each; behind the peaks one more, of blocks that are done
    long long a_row, a_column, b_row, b_column, out_row;  // strides, in numbers
    int m, n, k, keep;                                    // keep: b was split before, and what is noted of it stays
};
constexpr float SPREAD = 4096.0f;
constexpr int SIDE = 128, DEEP = 16, EACH = 8;  // of a tile, of a step along k, numbers of a thread each way

struct alignas(16) Tiles {
    float a[2][DEEP][SIDE], b[2][DEEP][SIDE];
    unsigned least[THREADS / 32], most[THREADS / 32], last;
};

// The same answer in every block; the last one leaves zeros for the next run.
INLINE bool lost_digits(const Guard &g, Tiles &shared) {
    unsigned least = ~0u, most = 0;
#pragma unroll 4
    for (int k = threadIdx.x; k < g.k; k += THREADS) {
        const unsigned size = g.inner[k];
        most = max(most, size);
        if (g.peaks[k]) least = min(least, size);
    }
    least = ~__reduce_max_sync(~0u, ~least), most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % 32 == 0) shared.least[threadIdx.x / 32] = least, shared.most[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; ++i) least = min(least, shared.least[i]), most = max(most, shared.most[i]);
    if (threadIdx.x == 0) shared.last = atomicAdd(g.peaks + g.k, 1u) == gridDim.x - 1;
    __syncthreads();
    if (shared.last) {
        for (int k = threadIdx.x; k < g.k; k += THREADS) {
            g.peaks[k] = 0;
            if (!g.keep) g.inner[k] = 0;
        }
        if (threadIdx.x == 0) g.peaks[g.k] = 0;
    }
    return least != ~0u && __uint_as_float(most) > SPREAD * __uint_as_float(least);
}

// A step of one side into shared memory, read as it lies: along k or across.
INLINE void load_step(float (&to)[DEEP][SIDE], const float *from, long long side_stride, long long k_stride, int side,
                      int sides, int k, int deep) {
    UNROLL for (int i = threadIdx.x; i < DEEP * SIDE; i += THREADS) {
        const int s = k_stride == 1 ? i / DEEP : i % SIDE, d = k_stride == 1 ? i % DEEP : i / SIDE;
        to[d][s] = side + s < sides && k + d < deep ? from[(side + s) * side_stride + (k + d) * k_stride] : 0.0f;
    }
}

// Each thread makes 8 x 8 numbers, in four squares of 4 x 4 that lie SIDE / 2 apart.
INLINE int apart(int i) { return i / 4 * (SIDE / 2) + i % 4; }
INLINE void classical_tile(const Guard &g, int row, int column, Tiles &shared) {
    const int down = threadIdx.x / 16 * 4, right = threadIdx.x % 16 * 4;
    float total[EACH][EACH] = {};
    for (int k = 0, half = 0; k < g.k; k += DEEP, half ^= 1) {
        load_step(shared.a[half], g.a, g.a_row, g.a_column, row, g.m, k, g.k);
        load_step(shared.b[half], g.b, g.b_column, g.b_row, column, g.n, k, g.k);
        __syncthreads();
        UNROLL for (int d = 0; d < DEEP; ++d)
            UNROLL for (int i = 0; i < EACH; ++i)
                UNROLL for (int j = 0; j < EACH; ++j)
                    total[i][j] = fmaf(shared.a[half][d][down + apart(i)], shared.b[half][d][right + apart(j)], total[i][j]);
    }
    __syncthreads();  // before the next tile's first step is kept
    UNROLL for (int i = 0; i < EACH; ++i)
        UNROLL for (int j = 0; j < EACH; ++j) {
            const int r = row + down + apart(i), c = column + right + apart(j);
            if (r < g.m && c < g.n) g.out[r * g.out_row + c] = total[i][j];
        }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void brrr_guard(const __grid_constant__ Guard g) {
    SHARED(Tiles, shared);
    if (!lost_digits(g, shared)) return;
    const int across = (g.n + SIDE - 1) / SIDE, tiles = (g.m + SIDE - 1) / SIDE * across;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        classical_tile(g, tile / across * SIDE, tile % across * SIDE, shared);
}
