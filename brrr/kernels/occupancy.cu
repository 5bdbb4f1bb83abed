// Each block reads its own stretch of memory, and each of its threads has LOADS loads on their way at a time, no more:
// the place of the next loads depends on what the last ones brought. So the bytes in flight are known: blocks that run
// at once x 256 threads x LOADS x 4 bytes. By Little's law they are the bandwidth times the latency, until the memory
// can give no more. Neighbours in a warp read neighbours, so that nothing else limits the loads.
//
// Read next: occupancy.py, which launches it. By itself, checked and timed: python -m brrr.kernels.occupancy

constexpr int THREADS = 256, NUMBERS = 256;  // numbers that each thread reads

template <int LOADS> __device__ __forceinline__ void read(const unsigned *in, unsigned *sums) {
    long long place = blockIdx.x * static_cast<long long>(THREADS * NUMBERS) + threadIdx.x;
    unsigned sum = 0;
#pragma unroll 1
    for (int step = 0; step < NUMBERS / LOADS; ++step) {
        unsigned words[LOADS], any = 0;
#pragma unroll
        for (int k = 0; k < LOADS; ++k) words[k] = in[place + k * THREADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) sum += words[k], any |= words[k];
        place += LOADS * THREADS + (any >> 31);  // no word has its highest bit set, which the compiler does not know
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) sums[(blockIdx.x * THREADS + threadIdx.x) / 32] = sum;
}

extern "C" __global__ void brrr_in_flight_1(const unsigned *in, unsigned *sums) { read<1>(in, sums); }
extern "C" __global__ void brrr_in_flight_2(const unsigned *in, unsigned *sums) { read<2>(in, sums); }
extern "C" __global__ void brrr_in_flight_4(const unsigned *in, unsigned *sums) { read<4>(in, sums); }
extern "C" __global__ void brrr_in_flight_8(const unsigned *in, unsigned *sums) { read<8>(in, sums); }
