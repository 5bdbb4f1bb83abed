// Runs split_operands.cu on a CPU, all blocks at once and thread by thread, as plain C++: a test of its logic without a
// GPU. Every thread is a fiber; they take turns in a random order. Shared memory begins as rubbish, and what counts do not
// come back to zero the test sees. Compile with the kernel's folder in -I; call brrr_host_split, brrr_host_exponents or
// brrr_host_guard.
#include "fibers.cuh"

using u16 = uint16_t;
using std::isfinite;

static void host::deliver() {}  // nothing here is done in the GPU's own time
static inline unsigned __reduce_max_sync(unsigned, unsigned x) {
    return host::meet(host::of_warp(), 32, x);
}
static inline void __threadfence() {}
static inline unsigned __ldcg(const unsigned *x) { return *x; }
static inline unsigned atomicAdd(unsigned *x, unsigned y) { const unsigned old = *x; *x += y; ++host::steps; return old; }
static inline unsigned atomicMax(unsigned *x, unsigned y) { const unsigned old = *x; *x = max(old, y); return old; }
static inline unsigned seen(const unsigned *counter) { host::yield(); return *counter; }
#define SHARED(Type, name) Type &name = *reinterpret_cast<Type *>(host::memories[blockIdx.x].data())

#include "split_operands.cu"

static int run_blocks(std::function<void()> what, int blocks, unsigned seed) {
    host::dice.seed(seed), gridDim.x = blocks, host::kernel = what;
    host::start(blocks, THREADS, max(sizeof(Shared), sizeof(Tiles)), 0xa5);
    return host::run(8, 2000);
}

extern "C" int brrr_host_split(const void *argument, int blocks, unsigned seed) {
    Operands operands;
    std::memcpy(&operands, argument, sizeof operands);
    return run_blocks([&] { brrr_split_operands(operands); }, blocks, seed);
}

extern "C" int brrr_host_exponents(const void *argument, int blocks, unsigned seed) {
    Summed summed;
    std::memcpy(&summed, argument, sizeof summed);
    return run_blocks([&] { brrr_split_exponents(summed); }, blocks, seed);
}

extern "C" int brrr_host_guard(const void *argument, int blocks, unsigned seed) {
    Guard guard;
    std::memcpy(&guard, argument, sizeof guard);
    return run_blocks([&] { brrr_guard(guard); }, blocks, seed);
}
