// The pieces of megakernel.cu that do not wait for anything: where things lie in shared memory, and the arithmetic.
#pragma once

constexpr int COLUMNS = WIDTH / CLUSTER, CHUNKS = WIDTH / DEPTH, CHUNK_FLOATS = COLUMNS * DEPTH;
constexpr int ROW_WARPS = ROWS / TILE_ROWS, COLUMN_WARPS = COLUMNS / (4 * TILE_QUADS);
constexpr int TILES = ROW_WARPS * COLUMN_WARPS, WARPS = TILES * K_WARPS, WORKERS = 32 * WARPS;
constexpr int INPUT_FLOATS = WIDTH * ROWS;                // one of the two buffers of activations
constexpr unsigned GROUP_BYTES = TILE_ROWS * WIDTH * 4;   // what arrives in it for each layer and group of rows
constexpr int VALUES = TILE_ROWS * TILE_QUADS;            // sums of a lane, before the lanes are added up
constexpr int KEPT = VALUES < 8 ? 1 : VALUES / 8;         // and after
constexpr int COPIES = VALUES < 8 ? 8 / VALUES : 1;       // so many lanes then hold the same sum
constexpr int TILE_WORDS = TILE_ROWS * TILE_QUADS, TILE_FLOATS = 4 * TILE_WORDS;  // a warp's results
constexpr int PARTS = VALUES >= 4 ? 1 : 4;  // independent sums of one result: an FMA waits 4 cycles for the one before

// So many chunks one after the other in the code; an even number, since a chunk's registers alternate.
#ifndef UNROLL
#define UNROLL 4
#endif
constexpr int STRAIGHT = UNROLL;
static_assert(STRAIGHT % 2 == 0, "two chunks take turns in the registers");

// Chunks of weights that the registers have room for beside the one in use.
constexpr int CHUNK_REGISTERS = DEPTH / 32 * TILE_QUADS * 4, OTHER_REGISTERS = 4 * TILE_ROWS + VALUES * PARTS + 64;
constexpr int WARPS_OF_A_SCHEDULER = (THREADS / 32 + 3) / 4;  // one of four, with 512 registers a lane
constexpr int REGISTERS = 512 / WARPS_OF_A_SCHEDULER < 255 ? 512 / WARPS_OF_A_SCHEDULER : 255;
constexpr int AHEAD = CHUNKS > K_WARPS && 2 * CHUNK_REGISTERS + OTHER_REGISTERS <= REGISTERS;

// Shared memory: barriers, ring (a slot is a chunk and room for the layer's biases), two inputs, two tiles a warp.
// megakernel_plan.py computes the same.
constexpr int FULL = 0, EMPTY = SLOTS, READY = 2 * SLOTS, BARRIERS = 2 * SLOTS + 2 * ROW_WARPS;
constexpr int SLOT_BYTES = 4 * (CHUNK_FLOATS + COLUMNS), RING_AT = (BARRIERS * 8 + 127) / 128 * 128;
constexpr int INPUT_AT = (RING_AT + SLOTS * SLOT_BYTES + 127) / 128 * 128, TILE_AT = INPUT_AT + 2 * INPUT_FLOATS * 4;

// Chunks asked for before x is read: all of them at once would be in its way.
constexpr int FIRST_BYTES = 32768 > CHUNKS * SLOT_BYTES ? 32768 : CHUNKS * SLOT_BYTES;
constexpr int FIRST = FIRST_BYTES / SLOT_BYTES < SLOTS ? FIRST_BYTES / SLOT_BYTES : SLOTS;

static_assert(WIDTH >= HIDDEN && WIDTH % CLUSTER == 0 && WIDTH % DEPTH == 0 && DEPTH % 32 == 0, "WIDTH does not divide");
static_assert(ROWS % TILE_ROWS == 0 && COLUMNS % (4 * TILE_QUADS) == 0, "the tiles do not cover a block's share");
static_assert(CHUNKS % K_WARPS == 0 && (K_WARPS == 1 || TILES <= 15), "k cannot be shared out so");
// A barrier tells its last two phases apart, no more. So a warp must follow each slot that it uses from turn to turn: were
// a slot used by another of the K_WARPS next time, that one might ask for a turn two phases away, and be let through.
static_assert(SLOTS % K_WARPS == 0 && SLOTS >= 2, "a slot must be used by the same warps in every turn");
static_assert(WIDE || (32 % CLUSTER == 0 && CLUSTER <= 16), "no such cluster");
static_assert(THREADS <= 1024 && (!WIDE || ROW_WARPS == 1), "no such block");
static_assert((ROWS & (ROWS - 1)) == 0 && (TILE_ROWS & (TILE_ROWS - 1)) == 0, "powers of two");
static_assert((TILE_QUADS & (TILE_QUADS - 1)) == 0 && TILE_WORDS <= 32, "powers of two");

__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }  // a NaN stays one

__device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 sum) {
    return make_float4(fmaf(a.x, b.x, sum.x), fmaf(a.y, b.y, sum.y), fmaf(a.z, b.z, sum.z), fmaf(a.w, b.w, sum.w));
}

// Words of 16 bytes: the input lies as [k / 4][row], and a row's place is exchanged with another's (row ^ turned), so
// that 8 lanes, reading 8 words one k / 4 after the other, never meet in a bank, without a gap between the words.
__device__ __forceinline__ int turned(int word) {
    constexpr int FEW = ROWS < 8 ? ROWS : 8;
    return word / (8 / FEW) % FEW;
}
__device__ __forceinline__ int place_of(int word, int row) { return word * ROWS + (row ^ turned(word)); }

// 4 values of x, row by row; zero beyond the batch and beyond HIDDEN.
__device__ __forceinline__ float4 read_word(const float *x, int row, int word, int batch) {
    const float *from = x + static_cast<long long>(row) * HIDDEN + 4 * word;
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= batch) return value;
    if (HIDDEN % 4 == 0) {
        if (4 * word < HIDDEN) value = *reinterpret_cast<const float4 *>(from);
    } else {
        if (4 * word + 0 < HIDDEN) value.x = from[0];
        if (4 * word + 1 < HIDDEN) value.y = from[1];
        if (4 * word + 2 < HIDDEN) value.z = from[2];
        if (4 * word + 3 < HIDDEN) value.w = from[3];
    }
    return value;
}

// The cluster's rows of x into shared memory; a thread asks for up to 8 words before it waits for the first.
__device__ __forceinline__ void read_input(const float *x, float *input, int first_row, int batch, int thread) {
    constexpr int WORDS = ROWS * (WIDTH / 4), EACH = (WORDS + WORKERS - 1) / WORKERS, AT_ONCE = EACH < 8 ? EACH : 8;
    for (int first = thread; first < WORDS; first += AT_ONCE * WORKERS) {
        float4 values[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int at = first + i * WORKERS;
            if (at < WORDS) values[i] = read_word(x, first_row + at / (WIDTH / 4), at % (WIDTH / 4), batch);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const int at = first + i * WORKERS;
            if (at < WORDS) reinterpret_cast<float4 *>(input)[place_of(at % (WIDTH / 4), at / (WIDTH / 4))] = values[i];
        }
    }
}

// A chunk's arithmetic: `weights` are in registers, the input is read here, a lane's rows at `place`.
__device__ __forceinline__ void multiply(const float4 (&weights)[DEPTH / 32][TILE_QUADS], const float4 *input,
                                         const int (&place)[TILE_ROWS], float4 (&sums)[TILE_ROWS][TILE_QUADS]) {
#pragma unroll
    for (int step = 0; step < DEPTH / 32; ++step) {
        float4 values[TILE_ROWS];
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) values[row] = input[step * 8 * ROWS + place[row]];
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row)
#pragma unroll
            for (int quad = 0; quad < TILE_QUADS; ++quad) {
                const float4 w = weights[step][quad], v = values[row];
                float4 &sum = sums[row][quad];
                if (PARTS == 4)
                    sum = fma4(w, v, sum);
                else
                    sum.x = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sum.x))));
            }
    }
}

// Adds up over 8 lanes, and shares out the sums: with 8 values, lane k ends with the sum of value k. At each step a lane
// keeps one half of its values, gives the other half to its partner, and receives what the partner gives.
template <int COUNT, int LANE>
__device__ __forceinline__ void share_out(float *values, int lane) {
    if constexpr (COUNT > 1) {
#pragma unroll
        for (int i = 0; i < COUNT / 2; ++i) {
            const bool upper = lane & LANE;
            const float kept = upper ? values[i + COUNT / 2] : values[i];
            const float given = upper ? values[i] : values[i + COUNT / 2];
            values[i] = kept + __shfl_xor_sync(0xffffffffu, given, LANE);
        }
    } else {
        values[0] += __shfl_xor_sync(0xffffffffu, values[0], LANE);
    }
    if constexpr (LANE > 1) share_out<(COUNT > 1 ? COUNT / 2 : 1), LANE / 2>(values, lane);
}

// A word of a tile's results: the K_WARPS parts of it added up, then ReLU; `column` is the layer's, of its first value.
__device__ __forceinline__ float4 finished(const float4 *tile, int word, int column) {
    float4 sum = tile[word];
#pragma unroll
    for (int part = 1; part < K_WARPS; ++part) {
        const float4 more = tile[part * 2 * TILE_WORDS + word];
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    const auto kept = [&](int i, float value) { return WIDTH == HIDDEN || column + i < HIDDEN ? relu(value) : 0.0f; };
    return make_float4(kept(0, sum.x), kept(1, sum.y), kept(2, sum.z), kept(3, sum.w));
}

// The tile of a warp, or this warp's part of the work with it, into y.
__device__ __forceinline__ void write_output(float *y, const float4 *tile, int row, int column, int batch, int lane) {
#pragma unroll
    for (int word = lane; word < TILE_WORDS; word += 32) {
        const int at_row = row + word % TILE_ROWS, at = column + 4 * (word / TILE_ROWS);
        const float4 value = finished(tile, word, at);
        if (at_row >= batch) continue;
        float *to = y + static_cast<long long>(at_row) * HIDDEN + at;
        if (HIDDEN % 4 == 0) {
            if (at < HIDDEN) *reinterpret_cast<float4 *>(to) = value;
        } else {
            if (at + 0 < HIDDEN) to[0] = value.x;
            if (at + 1 < HIDDEN) to[1] = value.y;
            if (at + 2 < HIDDEN) to[2] = value.z;
            if (at + 3 < HIDDEN) to[3] = value.w;
        }
    }
}

// The tile of a warp, or this warp's part of the work with it, into the next input of every block of the cluster:
// `base` is where this block's shared memory begins, `input` and `ready` are offsets in it.
__device__ __forceinline__ void send(const float4 *tile, unsigned base, unsigned input, unsigned ready, int row,
                                     int column, int lane, int k_warp, unsigned rank) {
    constexpr int BLOCKS_AT_ONCE = 32 / TILE_WORDS;  // lanes side by side write words side by side: fewer packets
    const int word = lane % TILE_WORDS, quad = word / TILE_ROWS;
    const float4 value = finished(tile, word, column + 4 * quad);
    const unsigned at = input + 16 * place_of(column / 4 + quad, row + word % TILE_ROWS);
#pragma unroll
    for (int i = 0; i < CLUSTER; i += BLOCKS_AT_ONCE * K_WARPS) {
        const int to = i + k_warp * BLOCKS_AT_ONCE + lane / TILE_WORDS;
        const unsigned there = in_block(base, (to + rank) % CLUSTER);  // not all to the same block at a time
        if (to < CLUSTER) store_across(there + at, value, there + ready);
    }
}

// The same into global memory, once for all blocks.
__device__ __forceinline__ void publish(const float4 *tile, float *between, int row, int column, int lane) {
    if (lane >= TILE_WORDS) return;
    const int quad = lane / TILE_ROWS;
    const int at = place_of(column / 4 + quad, row + lane % TILE_ROWS);
    reinterpret_cast<float4 *>(between)[at] = finished(tile, lane, column + 4 * quad);
}

// A warp counts itself in when its results of a layer are there. The last one knows that nobody waits for the layer
// before any more, and clears its counter for the next launch; after the last layer, which nobody waits for, this too.
__device__ __forceinline__ void count_in(unsigned *counters, int layer, int layers, int lane) {
    constexpr unsigned ALL = CLUSTER * TILES;
    fence_for_copies();
    __syncwarp();
    if (lane != 0 || layers == 1 || count_one(counters + layer) != ALL - 1) return;
    if (layer > 0) clear(counters + layer - 1);
    if (layer + 1 == layers) clear(counters + layer);
}
