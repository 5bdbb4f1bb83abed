// The whole network, layers x (Linear(hidden, hidden) + ReLU), in one cooperative launch, for GPUs without thread-block
// clusters (before sm_90) and for networks too wide for megakernel.cu. All blocks work on one layer, then wait for each
// other at a barrier of the whole grid; with a kernel a layer it would be a launch gap.
//
// A warp computes ROWS rows of one column: its 32 lanes share out k, add up their parts, and one writes. Activations lie
// in two buffers in global memory. They are read past the L1 cache (__ldcg), where an older layer's may still be.
// Where 4 divides `hidden` (and addresses are multiples of 16 bytes) loads are 16 bytes wide.
//
// Read next: plan.py, which shares out the work, and megakernel.py, which launches it.
// By itself, checked and timed: python -m brrr.kernels.megakernel

constexpr int GRID_THREADS = 256, ROWS = 4;

__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }  // a NaN stays one

// Every block waits for all; `state` is {blocks that have arrived, barriers passed}, zeros before the first launch. All
// blocks must be running at once, which a cooperative launch guarantees.
__device__ void grid_barrier(volatile unsigned *state) {
    __threadfence();  // each thread: what it wrote is there for the others
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned passed = state[1];
        __threadfence();  // read before arriving: afterwards the others may pass on
        if (atomicAdd(const_cast<unsigned *>(state), 1u) == gridDim.x - 1) {
            state[0] = 0;
            __threadfence();
            state[1] = passed + 1;
        } else {
            while (state[1] == passed) {
            }
        }
        __threadfence();
    }
    __syncthreads();
}

// The lane's part of `count` rows' products with one row of weights, beginning at `lane`.
template <bool WIDE>
__device__ __forceinline__ void multiply(const float *in, const float *weights, int hidden, int count, int lane,
                                         float *sums) {
    if (WIDE) {
        for (int k = 4 * lane; k < hidden; k += 128) {
            const float4 w = __ldg(reinterpret_cast<const float4 *>(weights + k));
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                if (row >= count) break;
                const float4 v = __ldcg(reinterpret_cast<const float4 *>(in + static_cast<long long>(row) * hidden + k));
                sums[row] = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sums[row]))));
            }
        }
    } else {
        for (int k = lane; k < hidden; k += 32) {
            const float w = __ldg(weights + k);
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                if (row >= count) break;
                sums[row] = fmaf(w, __ldcg(in + static_cast<long long>(row) * hidden + k), sums[row]);
            }
        }
    }
}

template <bool WIDE>
__device__ __forceinline__ void run(const float *x, const float *weights, const float *biases, float *y, float *between,
                                    unsigned *state, int batch, int hidden, int layers) {
    const int lane = threadIdx.x % 32, groups = (batch + ROWS - 1) / ROWS;
    const long long warp = (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) / 32;
    const long long warps = gridDim.x * static_cast<long long>(blockDim.x) / 32;
    const long long size = static_cast<long long>(batch) * hidden, tiles = static_cast<long long>(groups) * hidden;
    for (int layer = 0; layer < layers; ++layer) {
        const float *const in = layer == 0 ? x : between + (layer & 1) * size;
        float *const out = layer == layers - 1 ? y : between + (layer & 1 ^ 1) * size;
        for (long long tile = warp; tile < tiles; tile += warps) {
            const int column = static_cast<int>(tile % hidden), first = static_cast<int>(tile / hidden) * ROWS;
            const int count = min(ROWS, batch - first);
            float sums[ROWS] = {};
            multiply<WIDE>(in + static_cast<long long>(first) * hidden,
                           weights + (static_cast<long long>(layer) * hidden + column) * hidden, hidden, count, lane, sums);
#pragma unroll
            for (int row = 0; row < ROWS; ++row)
                for (int partner = 16; partner > 0; partner /= 2)
                    sums[row] += __shfl_xor_sync(0xffffffffu, sums[row], partner);
            const float bias = biases[static_cast<long long>(layer) * hidden + column];
#pragma unroll
            for (int row = 0; row < ROWS; ++row)
                if (lane == row && row < count)
                    out[static_cast<long long>(first + row) * hidden + column] = relu(sums[row] + bias);
        }
        if (layer + 1 < layers) grid_barrier(state);
    }
}

extern "C" __global__ __launch_bounds__(GRID_THREADS) void brrr_mega_grid(const float *x, const float *weights,
                                                                          const float *biases, float *y, float *between,
                                                                          unsigned *state, int batch, int hidden,
                                                                          int layers) {
    if (hidden % 4 == 0)
        run<true>(x, weights, biases, y, between, state, batch, hidden, layers);
    else
        run<false>(x, weights, biases, y, between, state, batch, hidden, layers);
}
