// The whole network, layers x (Linear(HIDDEN, HIDDEN) + ReLU), in one launch. On a CPU that would be:
//
//     for (int layer = 0; layer < layers; ++layer, x = y)
//         for (int row = 0; row < batch; ++row)
//             for (int column = 0; column < HIDDEN; ++column) {
//                 float sum = 0;
//                 for (int k = 0; k < HIDDEN; ++k) sum += x[row][k] * weight[layer][column][k];
//                 y[row][column] = relu(sum + bias[layer][column]);
//             }
//
// A kernel a layer pays for a launch, and for fetching what the layer before has just written, at every layer. Here:
//
//   rows     The rows of a batch never meet, so each thread-block cluster takes ROWS of them through all layers, and no
//            cluster waits for another. There may be more clusters than fit on the GPU at once.
//   columns  The CLUSTER blocks of a cluster share out a layer's columns, COLUMNS each. A block needs only its own
//            rows of each weight. One thread of its last warp, which does nothing else, copies them into a ring of SLOTS
//            chunks in shared memory (DEPTH values of k each) as fast as the ring has room, a layer's biases beside its
//            first chunk. Weights depend on nothing that is computed, so the copies run ahead of the arithmetic by as
//            many layers as the ring holds.
//   between  The next layer needs all columns in every block. Each warp writes its results straight into the shared
//            memory of all blocks of the cluster (distributed shared memory), and each write also counts its bytes down
//            in a barrier beside the place it writes to. A block goes on when its own barrier has all the bytes: no
//            barrier of the whole grid, nor of the cluster, stands between two layers. Two buffers are enough: a warp that
//            sends layer l + 1 has all of layer l, so every block has sent layer l, and so has read its input,
//            which lay where layer l + 1 goes. Each group of TILE_ROWS rows has barriers and warps of its own, and waits
//            for no other: while one group's results are on their way, another's are computed.
//
// With WIDE, the blocks that share out the columns are no cluster but CLUSTER blocks anywhere on the GPU, up to all of it:
// for networks so wide that a cluster's way to L2 would be too narrow for their weights. They exchange results through
// global memory: each warp writes its own, then counts itself in; one thread a block waits for the count, and asks for a
// copy of all. That takes longer than in a cluster, and all blocks must run at once (a cooperative launch).
//
// A tile is TILE_ROWS rows by 4 * TILE_QUADS columns. Of a warp that computes one, 8 lanes share out k, 4 floats at a time,
// and 4 groups of 8 lanes share out the columns. What bounds the arithmetic is reading shared memory: 32 lanes get 4
// bytes each in a cycle, whether they read the same place or not, and (TILE_ROWS + TILE_QUADS) words are read for
// TILE_ROWS * TILE_QUADS * 4 multiply-adds. So tiles should be large, which leaves few of them, and a warp alone waits
// for each word that it reads: K_WARPS warps work on one tile, each on some chunks, and add up their sums in the end.
//
// WIDTH is HIDDEN rounded up until everything divides: weights are zero there, and so is every value sent on.
// The numbers are given by the compiler's -D, once for each shape, each of them: HIDDEN, WIDTH, CLUSTER, ROWS, TILE_ROWS,
// TILE_QUADS, K_WARPS, DEPTH, SLOTS and WIDE; see plan.py for how they are chosen.
//
// Read next: plan.py, which shares out the work, and megakernel.py, which launches it.
// By itself, checked and timed: python -m brrr.kernels.megakernel
constexpr int THREADS = ROWS / TILE_ROWS * (WIDTH / CLUSTER / (4 * TILE_QUADS)) * K_WARPS * 32 + 32;

#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#if defined(__CUDACC__)  // a test compiles the kernel as plain C++ and provides the instructions itself
#include "../../gpu/sm90.cuh"
#endif
#include "megakernel_parts.cuh"
#endif

extern "C" __global__ __launch_bounds__(THREADS, 1) void brrr_mega_cluster(const float *x, const float *weights,
                                                                            const float *biases, float *y, int batch,
                                                                            int layers, float *between,
                                                                            unsigned *counters) {
#ifdef HAS_CLUSTERS
    unsigned char *const memory = shared_memory();
    const unsigned thread = thread_of_block();
    const int warp = thread / 32, lane = thread % 32;
    const unsigned rank = WIDE ? blockIdx.x % CLUSTER : block_of_cluster(), base = shared_address(memory);
    const int first_row = blockIdx.x / CLUSTER * ROWS, chunks = layers * CHUNKS;
    if (WIDE) between += blockIdx.x / CLUSTER * (2 * INPUT_FLOATS), counters += blockIdx.x / CLUSTER * layers;
    const auto barrier = [&](int index) { return base + 8 * index; };
    const auto fetch = [&](int chunk) {
        const int slot = chunk % SLOTS, part = chunk % CHUNKS;
        const long long share = static_cast<long long>(chunk / CHUNKS) * CLUSTER + rank;  // a layer's, this block's
        const unsigned to = base + RING_AT + slot * SLOT_BYTES, full = barrier(FULL + slot);
        barrier_expect(full, 4 * CHUNK_FLOATS + (part == 0 ? 4 * COLUMNS : 0));
        if (part == 0) copy_in(to + 4 * CHUNK_FLOATS, biases + share * COLUMNS, 4 * COLUMNS, full);
        copy_in(to, weights + (share * CHUNKS + part) * CHUNK_FLOATS, 4 * CHUNK_FLOATS, full);
    };

    // The last warp prepares the barriers, and asks for the first weights before anything else.
    next_may_begin();
    if (warp == WARPS) {
        for (int i = lane; i < BARRIERS; i += 32) barrier_init(barrier(i), i >= EMPTY && i < READY ? TILES : 1);
        barriers_ready();
        __syncwarp();
        if (lane == 0)
            for (int chunk = 0; chunk < FIRST && chunk < chunks; ++chunk) fetch(chunk);
        if (!WIDE && lane < 2 * ROW_WARPS) barrier_expect(barrier(READY + lane), GROUP_BYTES);
        __syncwarp();
    }
    if (!WIDE) cluster_arrive();  // this block's barriers are there; before the first send, all blocks' must be
    if (warp < WARPS) {
        wait_for_previous();
        read_input(x, reinterpret_cast<float *>(memory + INPUT_AT), first_row, batch, thread);
        if (WIDE) barriers_ready();  // copies come to the same place later
    }
    __syncthreads();

    if (warp == WARPS) {
        if (lane == 0)
            for (int chunk = FIRST; chunk < chunks; ++chunk) {
                if (chunk >= SLOTS) barrier_wait(barrier(EMPTY + chunk % SLOTS), (chunk / SLOTS - 1) & 1);
                fetch(chunk);
            }
        __syncwarp();
        if (!WIDE) cluster_wait();
    } else {
        if (!WIDE) cluster_wait();
        const int tile = warp / K_WARPS, k_warp = warp % K_WARPS, k_lane = lane % 8, group = lane / 8;
        const int row_group = tile / COLUMN_WARPS, tile_row = row_group * TILE_ROWS;
        const int tile_column = tile % COLUMN_WARPS * (4 * TILE_QUADS);
        const int column = rank * COLUMNS + tile_column;  // of the layer; tile_column is of this block
        const int tile_at = TILE_AT + 2 * tile * K_WARPS * TILE_FLOATS * 4;

        // Which sums this lane holds in the end: value number first_value + i is row value / TILE_QUADS, quad's lane
        // column value % TILE_QUADS.
        const int first_value = VALUES < 8 ? k_lane / COPIES : k_lane * KEPT;
        int sum_column[KEPT], sum_place[KEPT], row_place[TILE_ROWS];
        float bias[KEPT];
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
            const int row = (first_value + i) / TILE_QUADS, at = group * TILE_QUADS + (first_value + i) % TILE_QUADS;
            sum_column[i] = at, sum_place[i] = (at / 4 * TILE_ROWS + row) * 4 + at % 4, bias[i] = 0.0f;
        }
#pragma unroll
        for (int row = 0; row < TILE_ROWS; ++row) row_place[row] = place_of(k_lane, tile_row + row);

        // The next chunk's weights of this lane, from the ring into registers; its slot is free again at once.
        // Its slots are the same in every turn, since K_WARPS divides SLOTS.
        int chunk = k_warp, slot = k_warp, turn = 0;
        const int first_word = (tile_column + group * TILE_QUADS) * (DEPTH / 4) + k_lane;
        const auto take = [&](float4(&mine)[DEPTH / 32][TILE_QUADS], bool has_biases) {
            barrier_wait(barrier(FULL + slot), turn & 1);
            const unsigned char *const at = memory + RING_AT + slot * SLOT_BYTES;
            const float4 *const words = reinterpret_cast<const float4 *>(at);
#pragma unroll
            for (int step = 0; step < DEPTH / 32; ++step)
#pragma unroll
                for (int quad = 0; quad < TILE_QUADS; ++quad)
                    mine[step][quad] = words[first_word + quad * (DEPTH / 4) + step * 8];
            if (has_biases)
#pragma unroll
                for (int i = 0; i < KEPT; ++i)
                    bias[i] = reinterpret_cast<const float *>(at)[CHUNK_FLOATS + tile_column + sum_column[i]];
            __syncwarp();
            if (lane == 0 && chunk + SLOTS < chunks) barrier_arrive(barrier(EMPTY + slot));
            chunk += K_WARPS, slot += K_WARPS;
            if (slot == SLOTS + k_warp) slot = k_warp, ++turn;
        };

        for (int layer = 0; layer < layers; ++layer) {
            const int buffer = layer & 1, other = buffer ^ 1;
            const float4 *const input = reinterpret_cast<const float4 *>(memory + INPUT_AT) + buffer * (INPUT_FLOATS / 4);
            float4 sums[TILE_ROWS][TILE_QUADS];
#pragma unroll
            for (int row = 0; row < TILE_ROWS; ++row)
#pragma unroll
                for (int quad = 0; quad < TILE_QUADS; ++quad) sums[row][quad] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

            // Weights go into registers before they are needed, a chunk ahead where there is room, and the first of a
            // layer before its input is there.
            constexpr int TURNS = CHUNKS / K_WARPS;
            float4 mine[AHEAD + 1][DEPTH / 32][TILE_QUADS];
            take(mine[0], k_warp == 0);
#pragma unroll(TURNS < STRAIGHT ? TURNS : STRAIGHT)
            for (int part = 0; part < TURNS; ++part) {
                if (AHEAD && part + 1 < TURNS) take(mine[AHEAD * (part + 1) & 1], false);
                if (WIDE && part == 0 && layer > 0 && thread == 0) {
                    count_wait(counters + layer - 1, CLUSTER * TILES);
                    const unsigned ready = barrier(READY + buffer), to = base + INPUT_AT + buffer * INPUT_FLOATS * 4;
                    barrier_expect(ready, GROUP_BYTES);
                    copy_in(to, between + buffer * INPUT_FLOATS, GROUP_BYTES, ready);
                }
                if (part == 0 && layer > 0)
                    barrier_wait(barrier(READY + buffer * ROW_WARPS + row_group), (layer - 1) / 2 & 1);
                multiply(mine[AHEAD * part & 1], input + (part * K_WARPS + k_warp) * (DEPTH / 4) * ROWS, row_place, sums);
                if (!AHEAD && part + 1 < TURNS) take(mine[0], false);
            }

            float values[VALUES];
#pragma unroll
            for (int i = 0; i < VALUES; ++i) {
                const float4 sum = sums[i / TILE_QUADS][i % TILE_QUADS];
                values[i] = PARTS == 4 ? (sum.x + sum.y) + (sum.z + sum.w) : sum.x;
            }
            share_out<VALUES, 4>(values, lane);
            const float4 *const words = reinterpret_cast<const float4 *>(memory + tile_at) + buffer * TILE_WORDS;
            float *const part = reinterpret_cast<float *>(memory + tile_at) + (2 * k_warp + buffer) * TILE_FLOATS;
#pragma unroll
            for (int i = 0; i < KEPT; ++i)
                if (k_lane % COPIES == 0) part[sum_place[i]] = values[i] + bias[i];
            if (K_WARPS > 1)
                meet(1 + tile, 32 * K_WARPS);
            else
                __syncwarp();

            if (WIDE) {
                if (k_warp == 0) {
                    if (layer + 1 < layers)
                        publish(words, between + other * INPUT_FLOATS, tile_row, column, lane);
                    else
                        write_output(y, words, first_row + tile_row, column, batch, lane);
                    count_in(counters, layer, layers, lane);
                }
                continue;
            }
            const int ready = 8 * (READY + other * ROW_WARPS + row_group);
            if (layer + 1 < layers)
                send(words, base, INPUT_AT + other * INPUT_FLOATS * 4, ready, tile_row, column, lane, k_warp, rank);
            else if (k_warp == 0)
                write_output(y, words, first_row + tile_row, column, batch, lane);
            if (layer > 0 && lane == 0 && k_warp == 0 && tile % COLUMN_WARPS == 0)  // for layer + 2
                barrier_expect(barrier(READY + buffer * ROW_WARPS + row_group), GROUP_BYTES);
        }
    }
#else
    __trap();  // megakernel_grid.cu is for GPUs before sm_90
#endif
}
