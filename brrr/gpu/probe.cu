// Kernels that measure rather than compute: the gate, a spin of known length, and the eviction of the L2 cache.
// Compiled at run time by NVRTC; every name starts with brrr_, so that a profiler's trace can tell them apart.

__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Holds the stream until the host writes `ticket` (or more) into pinned memory, so that what is issued meanwhile
// piles up behind it. It gives up by itself after timeout_ns and says so: a function that waits for the GPU would
// otherwise wait for ever, and a limit kept here needs no help from a host thread that may be blocked just then.
extern "C" __global__ void brrr_gate(const volatile unsigned *opened, volatile unsigned *gave_up, unsigned ticket,
                                     unsigned long long timeout_ns) {
    const unsigned long long start = nanoseconds();
    while (*opened < ticket) {
        if (nanoseconds() - start > timeout_ns) {
            *gave_up = ticket;
            __threadfence_system();
            return;
        }
    }
}

// Keeps one thread busy for duration_ns and writes what it saw: start and end of the global timer (ns) and the
// processor's cycles between them. duration_ns = 0 is the empty kernel with the same clock reads in it.
extern "C" __global__ void brrr_spin(unsigned long long duration_ns, unsigned long long *out) {
    const unsigned long long start = nanoseconds();
    const long long cycles = clock64();
    unsigned long long now;
    do now = nanoseconds();
    while (now - start < duration_ns);
    out[2] = static_cast<unsigned long long>(clock64() - cycles);
    out[0] = start;
    out[1] = now;
}

// Does nothing: it stands before each call in a profiler's record, so that the calls can be told apart.
extern "C" __global__ void brrr_marker() {}

// Turns each 16-byte word round on its way from `in` to `out`: the yardstick that launches and gaps are calibrated with.
// It is made like the elementwise kernels that are measured (two buffers, a count, a bounds check), for gaps differ
// from kernel to kernel.
extern "C" __global__ void brrr_yardstick(const float4 *in, float4 *out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = make_float4(in[i].y, in[i].z, in[i].w, in[i].x);
}

// Writes `count` 16-byte words: twice the L2 of them leave nothing of the function's data in the cache ...
extern "C" __global__ void brrr_evict_write(uint4 *out, long long count, unsigned value) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
        out[i] = make_uint4(value, value, value, value);
}

// ... and reading as many clean ones sends the written lines home, so that the function does not pay for them.
extern "C" __global__ void brrr_evict_read(const uint4 *in, long long count, unsigned *sink) {
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    unsigned sum = 0;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
        const uint4 word = in[i];
        sum ^= word.x ^ word.y ^ word.z ^ word.w;
    }
    if (sum == 0xdeadbeefu) *sink = sum;  // never true for the zeros read; keeps the loads from being dropped
}
