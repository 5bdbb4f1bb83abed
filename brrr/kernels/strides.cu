// One number in every `stride`, beginning with number `offset`: how much of what the memory moves is of use?
// A multiprocessor asks for memory by sectors of 32 bytes, eight floats. A warp whose threads want neighbours needs
// four sectors (five, where it begins in the middle of one); with a stride of eight or more each thread needs one of
// its own, and seven eighths of it are thrown away. Loads are 4 bytes wide, since a stride or an offset leaves no 16
// bytes in a row that are aligned: at an address that 16 does not divide, a 16-byte load is an error.
//
// Little's law says what has to be on its way: 4.8 TB/s times 700 ns are 3.4 MB, 25 KB for each of 132 multiprocessors,
// and more while blocks come and go. Four loads of 4 bytes in each of 2048 threads ask for 32 KB at best, and reach two
// thirds of the bandwidth where neighbours share a sector; sixteen ask for 128 KB. A write waits for no answer.
//
// Read next: strides.py, which launches it. By itself, checked and timed: python -m brrr.kernels.strides

constexpr int THREADS = 128, READS = 16, WRITES = 8;

// The place of a thread's first number, where each thread handles `each` of them, a block's width apart.
__device__ __forceinline__ long long first_of(int each) {
    return blockIdx.x * static_cast<long long>(each * THREADS) + threadIdx.x;
}

// How many places there are from there to the end of all numbers, or to the end of the block's.
__device__ __forceinline__ int left_from(long long first, long long count, int each) {
    return count - first < each * THREADS ? static_cast<int>(count - first) : each * THREADS;
}

// Adds up the 32-bit words, modulo 2^32, and leaves one sum for each warp: the sums together show that every word came,
// while next to nothing is written.
extern "C" __global__ void brrr_strided_read(const unsigned *in, unsigned *sums, long long count, long long stride,
                                             long long offset) {
    const long long first = first_of(READS), step = THREADS * stride;
    const int left = left_from(first, count, READS);
    const unsigned *from = in + offset + first * stride;
    unsigned words[READS], sum = 0;
#pragma unroll
    for (int k = 0; k < READS; ++k, from += step) words[k] = k * THREADS < left ? *from : 0;
#pragma unroll
    for (int k = 0; k < READS; ++k) sum += words[k];
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) sums[(blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x) / 32] = sum;
}

// Writes base, base + 1, base + 2, ... as 32-bit words, one in every `stride`.
extern "C" __global__ void brrr_strided_write(unsigned *out, unsigned base, long long count, long long stride,
                                              long long offset) {
    const long long first = first_of(WRITES), step = THREADS * stride;
    const int left = left_from(first, count, WRITES);
    unsigned *to = out + offset + first * stride;
    unsigned word = base + static_cast<unsigned>(first);
#pragma unroll
    for (int k = 0; k < WRITES; ++k, to += step, word += THREADS) {
        if (k * THREADS < left) *to = word;
    }
}
