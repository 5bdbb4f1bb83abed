// Runs split_operands.cu on a CPU, all blocks at once and thread by thread, as plain C++: a test of its logic without a
// GPU. Every thread is a fiber; they take turns in a random order. Shared memory begins as rubbish, and what counts do not
// come back to zero the test sees. Compile with the kernel's folder in -I; call brrr_host_split, brrr_host_exponents or
// brrr_host_guard.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define ON_HOST
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
using u16 = uint16_t;
using std::isfinite;
using std::max;
using std::min;
struct Index { unsigned x; };
struct float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static Index blockIdx, threadIdx, gridDim;
template <class To, class From> static inline To bits_as(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static inline float __int_as_float(int x) { return bits_as<float>(x); }
static inline u16 half_of(float x) { return bits_as<u16>(static_cast<_Float16>(x)); }
static inline float float_of(u16 x) { return static_cast<float>(bits_as<_Float16>(x)); }

namespace host {
constexpr int STACK = 64 * 1024, PATIENCE = 2000;  // rounds in which nothing happens, before it is a deadlock
struct Meeting { int here = 0; unsigned generation = 0, most = 0, found = 0; };
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; int block = 0, thread = 0; bool done = false; };
static std::vector<Fiber> fibers;
static std::vector<std::vector<unsigned char>> memories;
static std::map<int, Meeting> meetings;
static std::mt19937 dice;
static ucontext_t scheduler;
static Fiber *me;
static long long steps;
static std::function<void()> kernel;

static void yield() {
    Fiber *self = me;
    swapcontext(&self->context, &scheduler);
    threadIdx.x = self->thread, blockIdx.x = self->block;
}
static unsigned meet(int which, int count, unsigned value) {
    Meeting &meeting = meetings[which];
    const unsigned generation = meeting.generation;
    meeting.most = max(meeting.most, value);
    if (++meeting.here == count) {
        meeting.here = 0, ++meeting.generation, ++steps, meeting.found = meeting.most, meeting.most = 0;
    }
    while (meeting.generation == generation) yield();
    return meeting.found;
}
}  // namespace host

static inline void __syncthreads() { host::meet(host::me->block * 64, 256, 0); }
static inline unsigned __reduce_max_sync(unsigned, unsigned x) {
    return host::meet(host::me->block * 64 + 1 + host::me->thread / 32, 32, x);
}
static inline void __threadfence() {}
static inline unsigned __ldcg(const unsigned *x) { return *x; }
static inline unsigned atomicAdd(unsigned *x, unsigned y) { const unsigned old = *x; *x += y; ++host::steps; return old; }
static inline unsigned atomicMax(unsigned *x, unsigned y) { const unsigned old = *x; *x = max(old, y); return old; }
static inline unsigned seen(const unsigned *counter) { host::yield(); return *counter; }
#define SHARED(Type, name) Type &name = *reinterpret_cast<Type *>(host::memories[blockIdx.x].data())

#include "split_operands.cu"

static void enter() {
    threadIdx.x = host::me->thread, blockIdx.x = host::me->block;
    host::kernel();
    host::me->done = true, ++host::steps;
    swapcontext(&host::me->context, &host::scheduler);
}

// 0, or 1 for a deadlock.
static int run_blocks(std::function<void()> what, int blocks, unsigned seed) {
    using namespace host;
    dice.seed(seed), gridDim.x = blocks, meetings.clear(), fibers.clear();
    memories.assign(blocks, std::vector<unsigned char>(max(sizeof(Shared), sizeof(Tiles)), 0xa5));
    kernel = what;
    fibers.resize(blocks * THREADS);
    for (size_t i = 0; i < fibers.size(); ++i) {
        Fiber &fiber = fibers[i];
        fiber.block = i / THREADS, fiber.thread = i % THREADS;
        fiber.stack = std::make_unique<char[]>(STACK);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = &scheduler;
        makecontext(&fiber.context, enter, 0);
    }
    std::vector<size_t> order(fibers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    long long last_seen = -1, last_step = 0;
    for (long long now = 0;; ++now) {
        if (now % 8 == 0) std::shuffle(order.begin(), order.end(), dice);
        size_t done = 0;
        for (size_t i : order) {
            me = &fibers[i];
            if (me->done) ++done;
            else swapcontext(&scheduler, &me->context);
        }
        if (done == fibers.size()) return 0;
        if (steps != last_seen) last_seen = steps, last_step = now;
        if (now - last_step > PATIENCE) return 1;
    }
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
