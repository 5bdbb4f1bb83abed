// What follows the product in a layer, y = relu(x W^T + b): the bias and ReLU, as two kernels or as one, in place.
//
// The CPU's version, which the tests compare with:
//
//     for (long long row = 0; row < rows; ++row)
//         for (int k = 0; k < width; ++k) y[row * width + k] = relu(y[row * width + k] + b[k]);
//
// Alone, each of the two reads and writes the whole of y; together they read and write it once. So fusion halves the
// bytes and, what counts for a small layer, saves a launch.
//
// A block's threads lie along a row, four neighbours to each, and blocks go down the rows; so a thread reads its four
// numbers of the bias once for all of its rows, and no index is divided. `words` is 1 where y and b may be read and
// written as words of four numbers (width a multiple of four, both addresses multiples of such a word); else a thread
// takes its four one by one. Sums are float32 whatever the type; bfloat16 comes as its 16 bits, for NVRTC alone has no
// header for it. A NaN stays a NaN, as in torch.
//
// Read next: bias_relu.py, which launches it. By itself, checked and timed: python -m brrr.kernels.bias_relu

typedef unsigned short bf16;  // the upper half of a float32

__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ float wide(bf16 x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }

__device__ __forceinline__ void narrow(float x, float *out) { *out = x; }

// Rounded to nearest, ties to even.
__device__ __forceinline__ void narrow(float x, bf16 *out) {
    const unsigned bits = __float_as_uint(x);
    *out = x != x ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

template <bool BIAS, bool RELU>
__device__ __forceinline__ float step(float x, float b) {
    const float sum = BIAS ? x + b : x;
    return RELU && sum < 0.0f ? 0.0f : sum;
}

template <bool BIAS, bool RELU, typename T>
__device__ __forceinline__ void one(T *y, const T *b) {
    narrow(step<BIAS, RELU>(wide(*y), BIAS ? wide(*b) : 0.0f), y);
}

template <bool BIAS, bool RELU, typename T, typename Word>
__device__ __forceinline__ void four(Word *y, float b0, float b1, float b2, float b3) {
    Word word = *y;
    T *each = reinterpret_cast<T *>(&word);
    narrow(step<BIAS, RELU>(wide(each[0]), b0), each);
    narrow(step<BIAS, RELU>(wide(each[1]), b1), each + 1);
    narrow(step<BIAS, RELU>(wide(each[2]), b2), each + 2);
    narrow(step<BIAS, RELU>(wide(each[3]), b3), each + 3);
    *y = word;
}

template <bool BIAS, bool RELU, typename T, typename Word>
__device__ __forceinline__ void rows_of(T *y, const T *b, long long rows, int width, int words) {
    const int column = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (column >= width) return;
    if (words) {
        float shift[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (BIAS) {
            const Word word = *reinterpret_cast<const Word *>(b + column);
            for (int k = 0; k < 4; ++k) shift[k] = wide(reinterpret_cast<const T *>(&word)[k]);
        }
        for (long long row = blockIdx.y; row < rows; row += gridDim.y)
            four<BIAS, RELU, T>(reinterpret_cast<Word *>(y + row * width + column), shift[0], shift[1], shift[2], shift[3]);
        return;
    }
    const int end = width - column < 4 ? width : column + 4;
    for (long long row = blockIdx.y; row < rows; row += gridDim.y)
        for (int k = column; k < end; ++k) one<BIAS, RELU>(y + row * width + k, b + k);
}

#define ARGUMENTS(T) T *y, const T *b, long long rows, int width, int words

extern "C" __global__ void brrr_bias_float32(ARGUMENTS(float)) { rows_of<true, false, float, float4>(y, b, rows, width, words); }
extern "C" __global__ void brrr_relu_float32(ARGUMENTS(float)) { rows_of<false, true, float, float4>(y, b, rows, width, words); }
extern "C" __global__ void brrr_bias_relu_float32(ARGUMENTS(float)) { rows_of<true, true, float, float4>(y, b, rows, width, words); }
extern "C" __global__ void brrr_bias_bfloat16(ARGUMENTS(bf16)) { rows_of<true, false, bf16, ushort4>(y, b, rows, width, words); }
extern "C" __global__ void brrr_relu_bfloat16(ARGUMENTS(bf16)) { rows_of<false, true, bf16, ushort4>(y, b, rows, width, words); }
extern "C" __global__ void brrr_bias_relu_bfloat16(ARGUMENTS(bf16)) { rows_of<true, true, bf16, ushort4>(y, b, rows, width, words); }
