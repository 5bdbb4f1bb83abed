// One number in every `stride`, beginning with number `offset`: how much of what the memory moves is of use?
// Memory moves in sectors of 32 bytes, eight floats. A warp whose threads ask for neighbours needs four sectors (five,
// where it begins in the middle of one); with a stride of eight or more each thread needs a sector of its own, and
// seven eighths of it are thrown away. Loads are 4 bytes wide, since a stride or an offset leaves no 16 bytes in a row
// that are aligned: at an address that 16 does not divide, a 16-byte load is an error.
//
// Each thread handles four of the numbers, a block's width apart, so that enough loads are on their way.

constexpr int IN_FLIGHT = 4;

// Adds up the 32-bit words, modulo 2^32, and leaves one sum for each warp: the sums together show that every word came,
// while next to nothing is written.
extern "C" __global__ void brrr_strided_read(const unsigned *in, unsigned *sums, long long count, long long stride,
                                             long long offset) {
    const long long first = blockIdx.x * static_cast<long long>(IN_FLIGHT * blockDim.x) + threadIdx.x;
    unsigned words[IN_FLIGHT], sum = 0;
#pragma unroll
    for (int k = 0; k < IN_FLIGHT; ++k) {
        const long long place = first + k * static_cast<long long>(blockDim.x);
        words[k] = place < count ? in[offset + place * stride] : 0;
    }
#pragma unroll
    for (int k = 0; k < IN_FLIGHT; ++k) sum += words[k];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) sums[(blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x) / 32] = sum;
}

// Writes base, base + 1, base + 2, ... as 32-bit words, one in every `stride`.
extern "C" __global__ void brrr_strided_write(unsigned *out, unsigned base, long long count, long long stride,
                                              long long offset) {
    const long long first = blockIdx.x * static_cast<long long>(IN_FLIGHT * blockDim.x) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < IN_FLIGHT; ++k) {
        const long long place = first + k * static_cast<long long>(blockDim.x);
        if (place < count) out[offset + place * stride] = base + static_cast<unsigned>(place);
    }
}
