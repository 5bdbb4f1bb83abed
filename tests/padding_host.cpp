// padding.cu on a CPU: CUDA's words mean just enough for its kernel to run, one thread after the other.
#include <cstring>
#define __global__

struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, blockDim;
struct alignas(16) uint4 { unsigned x, y, z, w; };
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

#include SOURCE

extern "C" void run_pad(const unsigned short *in, uint4 *out, long long rows, long long columns, long long pitch,
                        long long padded_rows, long long vectors, unsigned blocks, unsigned threads) {
    blockDim = {threads, 1, 1};
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
            brrr_pad(in, out, rows, columns, pitch, padded_rows, vectors);
}
