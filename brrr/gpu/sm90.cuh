// What kernels need of sm_90 and, from the tensor maps on, of sm_90a: an instruction each.
// Addresses of shared memory are 32 bits wide.
#pragma once

// Volatile, so that it is read once and kept in a register: read again in each layer, it would be waited for.
__device__ __forceinline__ unsigned thread_of_block() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}
__device__ __forceinline__ unsigned char *shared_memory() {
    extern __shared__ __align__(128) unsigned char memory[];
    return memory;
}
__device__ __forceinline__ unsigned shared_address(const void *p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ unsigned block_of_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned in_block(unsigned address, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// What has arrived lies in this block's own shared memory, which no cache stands before: an acquire of the whole cluster's
// scope would throw away the L1 cache each time, for nothing.
__device__ __forceinline__ bool barrier_passed(unsigned barrier, unsigned parity) {
    unsigned done;
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done;
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    while (!barrier_passed(barrier, parity)) {}
}
// Relaxed: what the others must see before they write here are the barriers, and `barriers_ready` sees to these.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// The copy returns at once; the barrier counts its bytes when they have arrived.
__device__ __forceinline__ void copy_in(unsigned to, const float *from, unsigned bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void store_across(unsigned to, float4 value, unsigned barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                     to),
                 "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
                 : "memory");
}
// Where the launch says so, this kernel may begin before the one in front of it has ended, and the next one before it.
__device__ __forceinline__ void next_may_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// So many threads of a block wait for each other; barrier 0 is that of __syncthreads.
__device__ __forceinline__ void meet(unsigned barrier, unsigned threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// What follows is for blocks anywhere on the GPU. Bulk copies go another way than loads and stores: a fence on each side.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ unsigned count_one(unsigned *counter) {
    __threadfence();  // what this thread's warp has written is there for all when it is counted
    return atomicAdd(counter, 1u);
}
__device__ __forceinline__ void count_wait(const unsigned *counter, unsigned all) {
    unsigned count;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    while (count < all);
    fence_for_copies();
}
__device__ __forceinline__ void clear(unsigned *counter) { *static_cast<volatile unsigned *>(counter) = 0; }

using u64 = unsigned long long;

struct alignas(64) TensorMap { unsigned char bytes[128]; };  // the driver's CUtensorMap

// The same barrier in the shared memory of any block of the cluster. What was read, the tensor cores read, and they have
// been waited for: no fence of the whole cluster's scope is needed.
__device__ __forceinline__ void barrier_arrive_in(unsigned block, unsigned barrier) {
    asm volatile(
        "{\n\t.reg .b32 there;\n\t"
        "mapa.shared::cluster.u32 there, %0, %1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(barrier),
        "r"(block)
        : "memory");
}
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
// A box of a matrix, from (k, row) on, into shared memory; what lies outside the matrix arrives as zeros.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap &map, int k, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(&map), "r"(k), "r"(row), "r"(barrier)
        : "memory");
}
// The same into the same place of both blocks of a cluster, where each one's own barrier counts the bytes.
__device__ __forceinline__ void load_box_for_both(unsigned to, const TensorMap &map, int k, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(&map), "r"(k), "r"(row), "r"(barrier), "h"((unsigned short)3)
        : "memory");
}
__device__ __forceinline__ void prefetch(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
template <int COUNT> __device__ __forceinline__ void registers_more() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void registers_fewer() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void multiply_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// The compiler does not know that the sums are there only when they have been waited for: none is read before this.
template <int COUNT> __device__ __forceinline__ void after_this(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d = a b^T + (keep ? d : 0): 64 rows of a, N rows of b, both 16 deep, by the 128 threads of a warpgroup together.
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
template <int N> __device__ __forceinline__ void multiply(float (&d)[N / 2], u64 a, u64 b, unsigned keep);
template <> __device__ __forceinline__ void multiply<128>(float (&d)[64], u64 a, u64 b, unsigned keep) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;\n\t}"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
        : "l"(a), "l"(b), "r"(keep));
}
template <> __device__ __forceinline__ void multiply<192>(float (&d)[96], u64 a, u64 b, unsigned keep) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %98, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
        TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) "%90, %91, %92, %93, %94, %95}, %96, %97, p, 1, 1, 0, 0;\n\t}"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80)
        : "l"(a), "l"(b), "r"(keep));
}
