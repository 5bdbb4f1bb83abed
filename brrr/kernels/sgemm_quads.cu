// Products of float32 matrices in float32, without matrix units, as sgemm.cu; every copy takes 16 bytes.
// out[p] = left[p] right[p]: left is (m, k), right (k, n), or, where RIGHT_TRANSPOSED, (n, k). 4 divides k, and n where
// right is not transposed; both begin at multiples of 16 bytes. A block computes one tile of BM x BN, a thread 8 x TN.
// What memory holds along k lies so in shared memory too, and a thread reads four k of a row at once. It keeps those of
// its 8 rows of left; the columns of a transposed right come one after the other, each used 32 times and dropped. So a
// copy costs a quarter of the instructions that it costs in sgemm.cu, and the loop's body is two fours of k long:
// about 17 KB of code, which matters, since code that exceeds the instruction cache comes too slowly.
// Rows of BK + 4 floats: any 8 rows' fours lie in different banks.

#ifndef BM
#define BM 128
#define BN 256
#define BK 8
#define TN 16
#define STAGES 5
#define BLOCKS 1            // of one multiprocessor at once
#define RIGHT_TRANSPOSED 1
#define QUADS_OUT 1         // out's rows may be written 16 bytes at a time
#define TAIL 0              // k is no multiple of BK
#define UNROLL 2            // fours of k in the loop's body
#define FENCES 3            // 1, 2: where ptxas may not put off loads from shared memory (__syncwarp: an instruction)
#endif

typedef long long i64;

constexpr int TM = 8, WARP_M = 8 * TM, WARP_N = 4 * TN;  // a warp is 8 x 4 threads
constexpr int WARPS_N = BN / WARP_N, THREADS = 32 * (BM / WARP_M) * WARPS_N;
constexpr int WIDTH = BK + 4, RIGHT_WIDTH = RIGHT_TRANSPOSED ? WIDTH : BN + 4;  // of a row in shared memory
constexpr int LEFT_FLOATS = BM * WIDTH, STAGE_FLOATS = LEFT_FLOATS + (RIGHT_TRANSPOSED ? BN : BK) * RIGHT_WIDTH;
constexpr int ACROSS = BK / 4, ROWS_A_PASS = THREADS / ACROSS, LEFT_PASSES = BM / ROWS_A_PASS;
constexpr int K_A_PASS = THREADS / (BN / 4);
constexpr int RIGHT_PASSES = RIGHT_TRANSPOSED ? BN / ROWS_A_PASS : BK / K_A_PASS;
constexpr int GROUPS = BK / (4 * UNROLL);  // of a step
static_assert(BK % (4 * UNROLL) == 0 && UNROLL % 2 == 0 && TN % TM == 0 && STAGES >= 3, "whole groups of fours");
static_assert(BM % WARP_M == 0 && BN % WARP_N == 0 && BM % ROWS_A_PASS == 0, "whole warps and passes");
static_assert(RIGHT_TRANSPOSED ? BN % ROWS_A_PASS == 0 : THREADS % (BN / 4) == 0 && BK % K_A_PASS == 0, "whole passes");

#ifndef HOST_EMULATION
__device__ __forceinline__ unsigned shared_address(const float *place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define ASYNC(...) asm volatile(__VA_ARGS__)
#else
#define ASYNC(...) __trap()  // only compiled there
#endif
// Copies 16 bytes without waiting; where `bytes` is 0, nothing is read and zeros are written.
__device__ __forceinline__ void copy_four(unsigned to, const float *from, int bytes) {
#if TAIL
    ASYNC("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
    ASYNC("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#endif
}
__device__ __forceinline__ void copies_issued() { ASYNC("cp.async.commit_group;" ::: "memory"); }
template <int LEFT_OPEN>
__device__ __forceinline__ void wait_for_copies() {
    ASYNC("cp.async.wait_group %0;" ::"n"(LEFT_OPEN) : "memory");
}
#endif

struct Place { int product, row, column; };
// Where the tile-th tile of the batch lies: `group` rows of tiles at a time, so that neighbours share operands.
__device__ __forceinline__ Place place_of(int tile, int rows, int columns, int group) {
    const int each = rows * columns, product = tile / each, inside = tile - product * each;
    const int first = inside / (group * columns) * group, high = rows - first < group ? rows - first : group;
    const int rest = inside - first * columns;
    return {product, (first + rest % high) * BM, rest / high * BN};
}
__device__ __forceinline__ float4 four_at(const float *place) { return *reinterpret_cast<const float4 *>(place); }
__device__ __forceinline__ float part(const float4 &four, int number) {
    return number == 0 ? four.x : number == 1 ? four.y : number == 2 ? four.z : four.w;
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void brrr_sgemm_quads(
    const float *__restrict__ left, const float *__restrict__ right, float *__restrict__ out, int products, int m, int n,
    int k, int group) {
    extern __shared__ __align__(16) float memory[];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int rows = (m + BM - 1) / BM, columns = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;
    const Place at = place_of(blockIdx.x, rows, columns, group);
    if (at.product >= products) return;
    // Lanes (bits 1-3 down, bits 0 and 4 across): the rows are 8 apart; the columns four neighbours, every 16.
    const int first_row = warp / WARPS_N * WARP_M + (lane >> 1 & 7);
    const int first_column = warp % WARPS_N * WARP_N + ((lane & 1) | (lane >> 4 & 1) << 1) * 4;

    const int deep = thread % ACROSS * 4, across = thread / ACROSS;
    const int right_k = thread / (BN / 4), right_column = thread % (BN / 4) * 4;
    const float *next_left = left + (i64(at.product) * m + at.row) * k + deep, *next_right;
    unsigned left_at[LEFT_PASSES], right_at[RIGHT_PASSES];
#pragma unroll
    for (int pass = 0; pass < LEFT_PASSES; ++pass) {  // rows beyond the end read the last one; nobody writes them
        const int row = across + pass * ROWS_A_PASS, last = m - 1 - at.row;
        left_at[pass] = unsigned(row < last ? row : last) * unsigned(k);
    }
    if (RIGHT_TRANSPOSED) {
        next_right = right + (i64(at.product) * n + at.column) * k + deep;
#pragma unroll
        for (int pass = 0; pass < RIGHT_PASSES; ++pass) {
            const int row = across + pass * ROWS_A_PASS, last = n - 1 - at.column;
            right_at[pass] = unsigned(row < last ? row : last) * unsigned(k);
        }
    } else {
        const int last = n - 4 - at.column;
        next_right = right + (i64(at.product) * k + right_k) * n + at.column + (right_column < last ? right_column : last);
    }
    int left_k = k;  // that is not yet on its way
    const auto copy = [&](float *stage) {
        if (left_k > 0) {
#pragma unroll
            for (int pass = 0; pass < LEFT_PASSES; ++pass)
                copy_four(shared_address(stage + (across + pass * ROWS_A_PASS) * WIDTH + deep), next_left + left_at[pass],
                          deep < left_k ? 16 : 0);
            float *const stage_right = stage + LEFT_FLOATS;
#pragma unroll
            for (int pass = 0; pass < RIGHT_PASSES; ++pass) {
                const int deep_k = right_k + pass * K_A_PASS;
                if (RIGHT_TRANSPOSED)
                    copy_four(shared_address(stage_right + (across + pass * ROWS_A_PASS) * WIDTH + deep),
                              next_right + right_at[pass], deep < left_k ? 16 : 0);
                else
                    copy_four(shared_address(stage_right + deep_k * RIGHT_WIDTH + right_column),
                              next_right + i64(pass * K_A_PASS) * n, deep_k < left_k ? 16 : 0);
            }
        }
        copies_issued();
        left_k -= BK, next_left += BK, next_right += RIGHT_TRANSPOSED ? i64(BK) : i64(BK) * n;
    };

    float sums[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = 0.0f;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(memory + stage * STAGE_FLOATS);
    wait_for_copies<STAGES - 2>();
    __syncthreads();

    float4 a[RIGHT_TRANSPOSED ? 2 : 1][TM], b[4];  // b: the next columns, by four k
    float4 line[2][TN / 4];                        // or all columns, of this k and the next
    const int left_place = first_row * WIDTH;
    const int right_place = LEFT_FLOATS + first_column * (RIGHT_TRANSPOSED ? WIDTH : 1);
    const auto column_at = [&](const float *from, int j) {
        return four_at(from + right_place + (j % 4 + j / 4 * 16) * WIDTH);
    };
#pragma unroll
    for (int i = 0; i < TM; ++i) a[0][i] = four_at(memory + left_place + i * 8 * WIDTH);
    if (RIGHT_TRANSPOSED) {
        b[0] = column_at(memory, 0), b[1] = column_at(memory, 1);
    } else {
#pragma unroll
        for (int j = 0; j < TN; j += 4) line[0][j / 4] = four_at(memory + right_place + j * 4);
    }
    int reading = 0, filling = STAGES - 1;  // stages
    const float *full = memory, *full_right = memory;
#pragma unroll 1
    for (int number = 0; number < steps * GROUPS; ++number) {
        const bool last_group = GROUPS == 1 || number % GROUPS == GROUPS - 1;
#pragma unroll
        for (int quad = 0; quad < UNROLL; ++quad) {
            // Where the next four k of left are, and of right: beside these, or in the next stage.
            const float *from = full + 4 * (quad + 1);
            const float *from_right = full_right + 4 * (quad + 1) * RIGHT_WIDTH;
            const float *const here = RIGHT_TRANSPOSED ? full + 4 * quad : full_right + 4 * quad * RIGHT_WIDTH;
            if (quad == UNROLL - 1 && last_group) {  // the next stage is whole, for all; nobody reads the one before this
                wait_for_copies<STAGES - 3>();
                __syncthreads();
                copy(memory + filling * STAGE_FLOATS);
                filling = filling + 1 < STAGES ? filling + 1 : 0, reading = reading + 1 < STAGES ? reading + 1 : 0;
                from = from_right = memory + reading * STAGE_FLOATS;
            }
            if (RIGHT_TRANSPOSED) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    b[(j + 2) % 4] = j + 2 < TN ? column_at(here, j + 2) : column_at(from, j + 2 - TN);
                    if (j % (TN / TM) == 0 && j / (TN / TM) < TM)
                        a[(quad + 1) % 2][j / (TN / TM)] = four_at(from + left_place + j / (TN / TM) * 8 * WIDTH);
#pragma unroll
                    for (int c = 0; c < 4; ++c)
#pragma unroll
                        for (int i = 0; i < TM; ++i)
                            sums[i][j] = fmaf(part(a[quad % 2][i], c), part(b[j % 4], c), sums[i][j]);
                    if (j % 8 == 7 ? FENCES & 1 : j % 8 == 3 && FENCES & 2) __syncwarp();
                }
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c) {
#pragma unroll
                    for (int j = 0; j < TN; j += 4)
                        line[(c + 1) % 2][j / 4] =
                            four_at((c < 3 ? here + (c + 1) * RIGHT_WIDTH : from_right) + right_place + j * 4);
                    if (FENCES & 1) __syncwarp();
#pragma unroll
                    for (int i = 0; i < TM; ++i) {
#pragma unroll
                        for (int turn = 0; turn < TN; ++turn) {  // to and fro, so that one factor stays
                            const int j = i % 2 ? turn : TN - 1 - turn;
                            sums[i][j] = fmaf(part(a[0][i], c), part(line[c % 2][j / 4], j % 4), sums[i][j]);
                        }
                        if (c == 3) a[0][i] = four_at(from + left_place + i * 8 * WIDTH);  // its last use
                        if (FENCES & 2 && c == 3 && i % 4 == 3) __syncwarp();
                    }
                }
            }
        }
        full_right = last_group ? memory + reading * STAGE_FLOATS : full_right + 4 * UNROLL * RIGHT_WIDTH;
        full = last_group ? full_right : full + 4 * UNROLL;
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = at.row + first_row + i * 8;
        if (row >= m) continue;
        float *const to = out + (i64(at.product) * m + row) * n;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int column = at.column + first_column + j / 4 * 16;
            if (QUADS_OUT) {
                if (column < n)
                    *reinterpret_cast<float4 *>(to + column) =
                        make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
            } else {
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    if (column + c < n) to[column + c] = sums[i][j + c];
            }
        }
    }
    wait_for_copies<0>();
}
