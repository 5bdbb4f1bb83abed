// Products of float32 matrices in float32, without matrix units: out[p] = left[p] right[p] for a batch of them.
// left is (m, k). right is (k, n), or, where RIGHT_TRANSPOSED, (n, k). A block computes tiles of BM x BN; a thread 8 x
// TN of them, in registers. Each step takes BK of the k: copies into shared memory run STAGES - 1 steps in front of the
// sums, across the end of a tile too, so that a block which takes several tiles never waits for memory between them.
// In shared memory both operands lie as [k][row or column], so that a thread reads four numbers at a time. Where memory
// holds them along k, each 4-byte copy goes to its own place: 8 lanes take 8 k of a row (a whole 32-byte sector), 4
// rows a warp, and rows of BM + 4 floats put all 32 numbers into different banks.
// A multiply-add names three registers, and there are two banks of registers, each good for one read a cycle and warp
// (so Huerta et al., 2025, found on Ampere). So one operand should be the one before's, which is kept (a[i] here, for
// all columns), and of the others, one in an even register and one in an odd one. sums[i][j] is, since four of a row
// are written at once, where j is even or odd. So b[j] must be the other way round: right's columns lie in shared
// memory with the neighbours of each pair exchanged.

#ifndef BM
#define BM 128
#define BN 256
#define BK 8
#define TN 16
#define STAGES 4
#define BLOCKS 1            // of one multiprocessor at once
#define RIGHT_TRANSPOSED 1
#define QUADS_OUT 1         // out's rows may be written 16 bytes at a time
#define TAIL 0              // k is no multiple of BK
#define BURSTS 4            // how many times a step some copies are issued
#define FENCES 0            // 1, 2, 4: where ptxas may not put off loads from shared memory (see below)
#endif

typedef long long i64;

constexpr int TM = 8;
constexpr int WARP_M = 8 * TM, WARP_N = 4 * TN;  // a warp is 8 x 4 threads
constexpr int WARPS_N = BN / WARP_N, THREADS = 32 * (BM / WARP_M) * WARPS_N;
constexpr int LEFT_WIDTH = BM + 4, RIGHT_WIDTH = BN + 4;  // of a row in shared memory: 16 bytes more, against conflicts
constexpr int LEFT_FLOATS = BK * LEFT_WIDTH, STAGE_FLOATS = LEFT_FLOATS + BK * RIGHT_WIDTH;
constexpr int K_PARTS = BK / 8, ROWS_A_PASS = THREADS / 8;  // 8 lanes along k
constexpr int LEFT_PASSES = BM / ROWS_A_PASS;
constexpr int K_A_PASS = THREADS > BN ? THREADS / BN : 1;
constexpr int N_PARTS = THREADS > BN ? 1 : BN / THREADS;
constexpr int RIGHT_PASSES = RIGHT_TRANSPOSED ? BN / ROWS_A_PASS : N_PARTS;
constexpr int LEFT_COPIES = LEFT_PASSES * K_PARTS;
constexpr int RIGHT_COPIES = RIGHT_TRANSPOSED ? RIGHT_PASSES * K_PARTS : (BK / K_A_PASS) * N_PARTS;
constexpr int COPIES = LEFT_COPIES + RIGHT_COPIES, EVERY = BK / BURSTS;
static_assert(BK % 8 == 0 && BM % WARP_M == 0 && BN % WARP_N == 0 && TN % 4 == 0, "tiles of whole warps");
static_assert(EVERY >= 2, "all copies of a step are issued before it ends");
static_assert(BM % ROWS_A_PASS == 0 && BN % ROWS_A_PASS == 0, "whole passes");
static_assert(RIGHT_TRANSPOSED || BK % K_A_PASS == 0, "whole passes along k");

#ifndef HOST_EMULATION
__device__ __forceinline__ unsigned shared_address(const float *place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define ASYNC(...) asm volatile(__VA_ARGS__)
#else
#define ASYNC(...) __trap()  // only compiled there
#endif
// Copies 4 bytes without waiting; where `bytes` is 0, nothing is read and a zero is written.
__device__ __forceinline__ void copy_one(unsigned to, const float *from, int bytes) {
#if TAIL
    ASYNC("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
    ASYNC("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#endif
}
__device__ __forceinline__ void copies_issued() { ASYNC("cp.async.commit_group;" ::: "memory"); }
template <int LEFT_OPEN>
__device__ __forceinline__ void wait_for_copies() {
    ASYNC("cp.async.wait_group %0;" ::"n"(LEFT_OPEN) : "memory");
}
#endif

// Where the tile-th tile of the batch lies: `group` rows of tiles at a time, so that neighbours share operands.
struct Place { int product, row, column; };
__device__ __forceinline__ Place place_of(int tile, int rows, int columns, int group) {
    const int each = rows * columns, product = tile / each, inside = tile - product * each;
    const int first = inside / (group * columns) * group, high = rows - first < group ? rows - first : group;
    const int rest = inside - first * columns;
    return {product, (first + rest % high) * BM, rest / high * BN};
}

// Where a thread reads next, a few steps in front of the sums.
struct Cursor {
    const float *left, *right;          // the thread's first number of this step
    unsigned left_at[LEFT_PASSES];      // and how far from it the first of each further pass is, in floats
    unsigned right_at[RIGHT_PASSES];
    int tile, step;
};

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void brrr_sgemm(
    const float *__restrict__ left, const float *__restrict__ right, float *__restrict__ out, int products, int m, int n,
    int k, int group) {
    extern __shared__ __align__(16) float memory[];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int rows = (m + BM - 1) / BM, columns = (n + BN - 1) / BN, tiles = products * rows * columns;
    const int steps = (k + BK - 1) / BK;
    // Lanes (bits 1-3 down, bits 0 and 4 across): any 8 neighbours read at most 128 different bytes, and two such
    // groups the same ones, which one access serves.
    const int first_row = warp / WARPS_N * WARP_M + (lane >> 1 & 7) * 4;
    const int first_column = warp % WARPS_N * WARP_N + ((lane & 1) | (lane >> 4 & 1) << 1) * 4;
    const int deep = thread % 8, across = thread / 8;
    const int right_k = thread / BN, right_column = thread % BN;

    Cursor next;
    const auto begin_tile = [&](int tile) {
        const Place at = place_of(tile, rows, columns, group);
        next.tile = tile, next.step = 0;
        next.left = left + (i64(at.product) * m + at.row) * k + deep;
#pragma unroll
        for (int pass = 0; pass < LEFT_PASSES; ++pass) {  // rows beyond the end read the last one; nobody writes them
            const int row = across + pass * ROWS_A_PASS, last = m - 1 - at.row;
            next.left_at[pass] = unsigned(row < last ? row : last) * unsigned(k);
        }
        if (RIGHT_TRANSPOSED) {
            next.right = right + (i64(at.product) * n + at.column) * k + deep;
#pragma unroll
            for (int pass = 0; pass < RIGHT_PASSES; ++pass) {
                const int row = across + pass * ROWS_A_PASS, last = n - 1 - at.column;
                next.right_at[pass] = unsigned(row < last ? row : last) * unsigned(k);
            }
        } else {
            next.right = right + (i64(at.product) * k + right_k) * n + at.column;
#pragma unroll
            for (int pass = 0; pass < RIGHT_PASSES; ++pass) {
                const int column = right_column + pass * THREADS, last = n - 1 - at.column;
                next.right_at[pass] = unsigned(column < last ? column : last);
            }
        }
    };
    const auto copy = [&](float *stage, int from, int to) {  // copies from..to of a step; the bounds are constants
        const int left_k = k - next.step * BK;
#pragma unroll
        for (int number = 0; number < COPIES; ++number) {
            if (number < from || number >= to) continue;
            if (number < LEFT_COPIES) {
                const int pass = number / K_PARTS, part = number % K_PARTS * 8;
                const int place = (deep + part) * LEFT_WIDTH + across + pass * ROWS_A_PASS;
                copy_one(shared_address(stage + place), next.left + next.left_at[pass] + part,
                         deep + part < left_k ? 4 : 0);
            } else if (RIGHT_TRANSPOSED) {
                const int pass = (number - LEFT_COPIES) / K_PARTS, part = (number - LEFT_COPIES) % K_PARTS * 8;
                const int place = LEFT_FLOATS + (deep + part) * RIGHT_WIDTH + (across ^ 1) + pass * ROWS_A_PASS;
                copy_one(shared_address(stage + place), next.right + next.right_at[pass] + part,
                         deep + part < left_k ? 4 : 0);
            } else {
                const int pass = (number - LEFT_COPIES) % N_PARTS, part = (number - LEFT_COPIES) / N_PARTS * K_A_PASS;
                const int column = (right_column ^ 1) + pass * THREADS;
                const int place = LEFT_FLOATS + (right_k + part) * RIGHT_WIDTH + column;
                const float *source = next.right + next.right_at[pass] + unsigned(part) * i64(unsigned(n));
                copy_one(shared_address(stage + place), source, right_k + part < left_k ? 4 : 0);
            }
        }
    };
    const auto advance = [&] {  // past the last tile it stays there, reading again what nobody will use
        next.left += BK;
        next.right += RIGHT_TRANSPOSED ? i64(BK) : i64(BK) * n;
        if (__builtin_expect(++next.step == steps, 0)) {
            const i64 tile = i64(next.tile) + gridDim.x;
            begin_tile(tile < tiles ? int(tile) : next.tile);
        }
    };

    // Those of left are replaced where they were used last, half a k before they are needed; those of right have a
    // second set. Without a fence, ptxas puts the loads off until just before their use; __syncwarp is one, and costs
    // an instruction.
    float a[TM], b[2][TN], sums[TM][TN];
    const auto fetch_left = [&](const float *stage, int deep_k, int i) {
        const float4 four = *reinterpret_cast<const float4 *>(stage + deep_k * LEFT_WIDTH + first_row + i / 4 * 32);
        a[i] = four.x, a[i + 1] = four.y, a[i + 2] = four.z, a[i + 3] = four.w;
    };
    const auto fetch_right = [&](const float *stage, int deep_k, int half) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const float4 four = *reinterpret_cast<const float4 *>(stage + LEFT_FLOATS + deep_k * RIGHT_WIDTH +
                                                                  first_column + j / 4 * 16);
            // exchanged back; see the file's head
            b[half][j + 1] = four.x, b[half][j] = four.y, b[half][j + 3] = four.z, b[half][j + 2] = four.w;
        }
    };

    begin_tile(blockIdx.x);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copy(memory + stage * STAGE_FLOATS, 0, COPIES);
        copies_issued();
        advance();
    }
    wait_for_copies<STAGES - 2>();
    __syncthreads();
    fetch_right(memory, 0, 0);
    fetch_left(memory, 0, 0);
    fetch_left(memory, 0, 4);
    int reading = 0, filling = STAGES - 1;  // stages
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            float *const full = memory + reading * STAGE_FLOATS, *const empty = memory + filling * STAGE_FLOATS;
            reading = reading + 1 < STAGES ? reading + 1 : 0;
            filling = filling + 1 < STAGES ? filling + 1 : 0;
            const float *const after = memory + reading * STAGE_FLOATS;
#pragma unroll
            for (int kk = 0; kk < BK; ++kk) {
                if (kk == BK - 1) {  // the next stage is whole, for all; and nobody reads the one before this any more
                    wait_for_copies<STAGES - 2>();
                    __syncthreads();
                }
                const float *const from = kk + 1 < BK ? full : after;
                fetch_right(from, (kk + 1) % BK, (kk + 1) % 2);
                if (FENCES & 1) __syncwarp();
                if (kk % EVERY == 0) copy(empty, kk / EVERY * COPIES / BURSTS, (kk / EVERY + 1) * COPIES / BURSTS);
                if (kk == (BURSTS - 1) * EVERY) copies_issued(), advance();
#pragma unroll
                for (int i = 0; i < TM; ++i) {
#pragma unroll
                    for (int turn = 0; turn < TN; ++turn) {  // to and fro, so that b[j] stays where a[i] changes
                        const int j = i % 2 ? turn : TN - 1 - turn;
                        sums[i][j] = fmaf(a[i], b[kk % 2][j], sums[i][j]);
                    }
                    if (i % 4 == 3) {  // the last use of these four: those of the next k take their place
                        fetch_left(from, (kk + 1) % BK, i - 3);
                        if (FENCES & 2 << i / 4) __syncwarp();
                    }
                }
            }
        }
        const Place at = place_of(int(tile), rows, columns, group);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = at.row + first_row + i / 4 * 32 + i % 4;
            if (row >= m) continue;
            float *const line = out + (i64(at.product) * m + row) * n;
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const int column = at.column + first_column + j / 4 * 16;
                if (QUADS_OUT) {
                    if (column < n)
                        *reinterpret_cast<float4 *>(line + column) =
                            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
                } else {
#pragma unroll
                    for (int c = 0; c < 4; ++c)
                        if (column + c < n) line[column + c] = sums[i][j + c];
                }
            }
        }
    }
    wait_for_copies<0>();
}
