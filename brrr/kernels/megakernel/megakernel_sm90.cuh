// What megakernel.cu needs of sm_90, an instruction each; addresses of shared memory are 32 bits wide.
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
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
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
