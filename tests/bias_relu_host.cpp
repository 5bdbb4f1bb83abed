// bias_relu.cu on a CPU: CUDA's words mean just enough for its kernels to run, one thread after the other.
#include <cstring>
#define __device__
#define __global__
#define __forceinline__ inline

struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, blockDim, gridDim;
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
static float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }

#include SOURCE

#define RUN(NAME, T)                                                                                              \
    extern "C" void run_##NAME(T *y, const T *b, long long rows, int width, int words, unsigned columns_of_blocks, \
                               unsigned rows_of_blocks, unsigned threads) {                                       \
        blockDim = {threads, 1, 1};                                                                               \
        gridDim = {columns_of_blocks, rows_of_blocks, 1};                                                         \
        for (blockIdx.y = 0; blockIdx.y < rows_of_blocks; ++blockIdx.y)                                            \
            for (blockIdx.x = 0; blockIdx.x < columns_of_blocks; ++blockIdx.x)                                     \
                for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) brrr_##NAME(y, b, rows, width, words); \
    }

RUN(bias_float32, float)
RUN(relu_float32, float)
RUN(bias_relu_float32, float)
RUN(bias_bfloat16, bf16)
RUN(relu_bfloat16, bf16)
RUN(bias_relu_bfloat16, bf16)
