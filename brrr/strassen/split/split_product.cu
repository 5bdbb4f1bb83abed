// A product as exact as float32's, by the tensor cores: each operand comes as two float16 terms, x = (hi + lo) 2^e, e one
// whole number a row, and both operands' rows lie along k:
//
//     out[m, n] = 2^(e_m + f_n) sum over k of (hi[m] lo[n] + lo[m] hi[n] + hi[m] hi[n])
//
// The tensor core's sums lose a little at each step, since it truncates. So after each step of 64 along k the sum leaves it
// and is added to a total in ordinary registers, rounded to nearest, and the next sum begins at zero. The two small
// products of a step come first: while a sum is small, little of it is cut off.
//
// A block: two warpgroups that multiply, 64 rows of its tile each, and one warp that keeps the copy engine busy. Shared
// memory is a ring of SLOTS: slots of high terms and of low terms by turns, each with a tile of both operands. Where one
// warpgroup adds to its totals, the other's products keep the tensor cores busy. CLUSTER = 2: two blocks, one below the
// other, read half of the right operand's tile each, and the copy engine writes it to both.
//
// COLUMNS of a block's tile (128 or 192), SLOTS and CLUSTER are given by the compiler's -D; see product_kernel.py.
//
// Read next: product_kernel.py, which launches it. By itself, checked and timed: python -m brrr.strassen.split.product_kernel
#include "../../gpu/halves.cuh"
#ifndef ON_HOST  // a test emulates on the CPU what is included here
#include "../../gpu/sm90.cuh"
#endif

constexpr int CONSUMERS = 2, DEPTH = 64, ROW_BYTES = 2 * DEPTH, ROWS = 64 * CONSUMERS, THREADS = 128 * (CONSUMERS + 1);
constexpr int LEFT_BYTES = ROWS * ROW_BYTES, RIGHT_BYTES = COLUMNS * ROW_BYTES, SLOT_BYTES = LEFT_BYTES + RIGHT_BYTES;
constexpr int PART_ROWS = COLUMNS / CLUSTER, HELD = COLUMNS / 2;  // sums of a thread: 64 x COLUMNS over 128 threads
static_assert(SLOTS >= 4 && (CLUSTER == 1 || CLUSTER == 2), "see above");

// How the work is cut, and where the results go. Sizes of operands are the maps' own; `tiles` counts whole clusters'.
struct TileGrid {
    int m, n, steps, bands, column_tiles, tiles, group, pairs;  // pairs: two columns may be stored at once
    long long out_batch, out_row;                               // strides, in numbers
    long long left_batch, left_row, right_batch, right_row;     // of the exponents
};

struct Tile {
    int batch, row, column;
};

// Tiles that run at the same time lie near each other, `group` bands of rows high, so that they share what they read.
INLINE Tile tile_of(const TileGrid &p, int index, int rank) {
    const int of_matrix = p.bands * p.column_tiles, of_group = p.group * p.column_tiles;
    const int left = index % of_matrix, first = left / of_group * p.group, inside = left % of_group;
    const int high = min(p.group, p.bands - first);
    return {index / of_matrix, ((first + inside % high) * CLUSTER + rank) * ROWS, inside / high * COLUMNS};
}

// The ring of slots as one of its users goes through it.
struct Ring {
    unsigned memory, full, empty;  // slots, and two barriers for each
    unsigned slot = 0, phase = 0;

    INLINE unsigned at(unsigned s) const { return memory + s * SLOT_BYTES; }
    INLINE void next() {
        if (++slot == SLOTS) slot = 0, phase ^= 1;
    }
    // For a warp of a consumer: a slot of both blocks' rings is read by all blocks of the cluster, or written for all.
    INLINE void release(unsigned s, unsigned lane) const {
        __syncwarp();
        if constexpr (CLUSTER == 1) {
            if (lane == 0) barrier_arrive(empty + 8 * s);
        } else if (lane < CLUSTER) barrier_arrive_in(lane, empty + 8 * s);
    }
};

INLINE void load_slot(Ring &ring, const TensorMap &left, const TensorMap &right, int k, int row, int column, int rank) {
    const unsigned full = ring.full + 8 * ring.slot, to = ring.at(ring.slot);
    barrier_wait(ring.empty + 8 * ring.slot, ring.phase ^ 1);  // passes at once in the first round
    barrier_expect(full, SLOT_BYTES);
    load_box(to, left, k, row, full);
    if constexpr (CLUSTER == 1) load_box(to + LEFT_BYTES, right, k, column, full);
    else load_box_for_both(to + LEFT_BYTES + rank * (RIGHT_BYTES / 2), right, k, column + rank * PART_ROWS, full);
    ring.next();
}

// What tells the tensor cores where a tile of k-major rows lies: in rows of 128 bytes, eight of them a pattern, and the
// 16-byte pieces of a row permuted as the copy engine's swizzle of 128 bytes leaves them.
INLINE u64 matrix_at(unsigned address) {
    return u64(1) << 62 | u64(8 * ROW_BYTES / 16) << 32 | u64(1) << 16 | (address & 0x3FFFF) >> 4;
}
// d (+)= the product of a warpgroup's rows of one slot and the columns of another, DEPTH deep.
INLINE void multiply_slots(float (&d)[HELD], unsigned left, unsigned right, bool fresh) {
    const u64 a = matrix_at(left), b = matrix_at(right);
    UNROLL for (int k = 0; k < DEPTH / 16; ++k) multiply<COLUMNS>(d, a + 2 * k, b + 2 * k, !(fresh && k == 0));
}

// d = the sum of a step's three products of terms.
INLINE void multiply_step(float (&d)[HELD], Ring &ring, unsigned first_row, unsigned lane) {
    const unsigned hi = ring.slot;
    barrier_wait(ring.full + 8 * hi, ring.phase);
    ring.next();
    const unsigned lo = ring.slot;
    barrier_wait(ring.full + 8 * lo, ring.phase);
    ring.next();
    const unsigned left_hi = ring.at(hi) + first_row * ROW_BYTES, right_hi = ring.at(hi) + LEFT_BYTES;
    const unsigned left_lo = ring.at(lo) + first_row * ROW_BYTES, right_lo = ring.at(lo) + LEFT_BYTES;
    multiply_fence();
    multiply_slots(d, left_hi, right_lo, true);
    multiply_slots(d, left_lo, right_hi, false);
    multiply_slots(d, left_hi, right_hi, false);
    multiply_commit();
    multiply_wait<0>();
    ring.release(hi, lane), ring.release(lo, lane);
    after_this(d);
}

// Thread t of a warpgroup holds rows t / 4 % 8 and that + 8 of its warp's 16, and of each 8 columns 2 (t % 4) and the next.
// WHOLE: the tile ends inside the result, and two columns may be stored at once.
template <bool WHOLE>
INLINE void store_tile(const float (&total)[HELD], const TileGrid &p, const Tile &tile, float *out, const int *left,
                       const int *right, int thread) {
    const int row = tile.row + thread / 32 * 16 + thread % 32 / 4, column = tile.column + thread % 4 * 2;
    const bool upper = WHOLE || row < p.m, lower = WHOLE || row + 8 < p.m;
    left += tile.batch * p.left_batch + row * p.left_row, right += tile.batch * p.right_batch + column * p.right_row;
    const int e = upper ? left[0] : 0, e8 = lower ? left[8 * p.left_row] : 0;
    float *to = out + tile.batch * p.out_batch + row * p.out_row + column, *to8 = to + 8 * p.out_row;
    UNROLL for (int j = 0; j < COLUMNS / 8; ++j, right += 8 * p.right_row) {
        const float *x = total + 4 * j;
        if constexpr (WHOLE) {
            const int f = right[0], g = right[p.right_row];
            *reinterpret_cast<float2 *>(to + 8 * j) = make_float2(Scale(e + f).of(x[0]), Scale(e + g).of(x[1]));
            *reinterpret_cast<float2 *>(to8 + 8 * j) = make_float2(Scale(e8 + f).of(x[2]), Scale(e8 + g).of(x[3]));
        } else {
            UNROLL for (int i = 0; i < 2; ++i) {
                if (column + 8 * j + i >= p.n) continue;
                const int f = right[i * p.right_row];
                if (upper) to[8 * j + i] = Scale(e + f).of(x[i]);
                if (lower) to8[8 * j + i] = Scale(e8 + f).of(x[2 + i]);
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void brrr_split_product(
    const __grid_constant__ TensorMap left_hi, const __grid_constant__ TensorMap left_lo,
    const __grid_constant__ TensorMap right_hi, const __grid_constant__ TensorMap right_lo, float *out,
    const int *left_exponents, const int *right_exponents, const TileGrid p) {
    extern __shared__ unsigned char raw[];
    Ring ring;
    ring.memory = (static_cast<unsigned>(__cvta_generic_to_shared(raw)) + 1023) & ~1023u;  // a swizzle's pattern
    ring.full = ring.memory + SLOTS * SLOT_BYTES, ring.empty = ring.full + 8 * SLOTS;
    const int rank = CLUSTER == 1 ? 0 : block_of_cluster(), warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    const int first_tile = blockIdx.x / CLUSTER, stride = gridDim.x / CLUSTER, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s)
            barrier_init(ring.full + 8 * s, 1), barrier_init(ring.empty + 8 * s, 4 * CONSUMERS * CLUSTER);
        barriers_ready();
    }
    if constexpr (CLUSTER == 1) __syncthreads();
    else cluster_meet();
    if (warpgroup == CONSUMERS) {
        registers_fewer<24>();
        if (threadIdx.x == 128 * CONSUMERS) {
            prefetch(left_hi), prefetch(left_lo), prefetch(right_hi), prefetch(right_lo);
            for (int index = first_tile; index < p.tiles; index += stride) {
                const Tile tile = tile_of(p, index, rank);
                // An operand's matrices stand one below the other; rows of the next one are read, but not used.
                const int row = tile.batch * p.m + tile.row, column = tile.batch * p.n + tile.column;
#pragma unroll 1
                for (int step = 0; step < p.steps; ++step) {
                    load_slot(ring, left_hi, right_hi, step * DEPTH, row, column, rank);
                    load_slot(ring, left_lo, right_lo, step * DEPTH, row, column, rank);
                }
            }
        }
    } else {
        registers_more<240>();
#pragma unroll 1
        for (int index = first_tile; index < p.tiles; index += stride) {
            float total[HELD], part[HELD];
            UNROLL for (int i = 0; i < HELD; ++i) total[i] = 0.0f;
#pragma unroll 1
            for (int step = 0; step < p.steps; ++step) {
                multiply_step(part, ring, 64 * warpgroup, lane);
                UNROLL for (int i = 0; i < HELD; ++i) total[i] += part[i];
            }
            Tile tile = tile_of(p, index, rank);
            tile.row += 64 * warpgroup;
            const int thread = threadIdx.x % 128;
            if (p.pairs && tile.row + 64 <= p.m && tile.column + COLUMNS <= p.n)
                store_tile<true>(total, p, tile, out, left_exponents, right_exponents, thread);
            else store_tile<false>(total, p, tile, out, left_exponents, right_exponents, thread);
        }
    }
    if constexpr (CLUSTER > 1) cluster_meet();  // no block ends while another writes to its memory, or signals there
}
