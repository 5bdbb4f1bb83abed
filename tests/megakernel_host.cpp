// Runs megakernel.cu on a CPU, block by block and thread by thread, as plain C++: a test of its logic without a GPU.
// Every thread of a cluster is a fiber; they take turns in a random order. What the GPU does in its own time (copies into
// shared memory, stores to other blocks) is put off for a random while, so that whatever is used before it was waited for
// is still the NaN that memory began with, and whatever is overwritten too early is wrong.
// Compile it with the kernel's -D and the folder of megakernel.cu in -I; call brrr_host_run (see test_megakernel.py).
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(16) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Index { unsigned x; };
static Index blockIdx;

namespace host {
constexpr int STACK = 128 * 1024, PATIENCE = 400;  // rounds in which nothing happens, before it is a deadlock
enum { FINISHED = 0, DEADLOCK = 1, BAD_ADDRESS = 2, BAD_BARRIER = 3 };

struct Barrier { int arrivals = 0, pending = 0; long long bytes = 0; unsigned phase = 0; };
struct Meeting { int here = 0; unsigned generation = 0; };
struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    unsigned block, thread, cluster_generation = 0;
    bool done = false;
};
struct Block {
    std::vector<unsigned char> memory;
    Meeting all;
    std::vector<Meeting> warps, named = std::vector<Meeting>(16);
    std::vector<float> exchanged;
};
static std::vector<Fiber> fibers;
static std::vector<Block> blocks;
static std::map<unsigned, Barrier> barriers;
struct Parcel { std::function<void()> arrive; long long due; };
static std::vector<Parcel> in_flight;
static long long now;  // rounds of the scheduler
static Meeting cluster;
static std::mt19937 dice;
static ucontext_t scheduler;
static Fiber *me;
static int failure, threads;
static unsigned first_block;
static long long steps;
static std::function<void()> kernel;

static void yield() { swapcontext(&me->context, &scheduler); }
static Block &block() { return blocks[me->block]; }
static unsigned char *at(unsigned address, unsigned bytes) {
    const unsigned rank = address >> 24, offset = address & 0xffffff;
    if (rank >= blocks.size() || offset + bytes > blocks[rank].memory.size() || offset % std::min(bytes, 16u)) {
        failure = BAD_ADDRESS;
        static unsigned char nowhere[1 << 20];
        return nowhere;
    }
    return blocks[rank].memory.data() + offset;
}
static void meet(Meeting &meeting, int count) {
    const unsigned generation = meeting.generation;
    if (++meeting.here == count) meeting.here = 0, ++meeting.generation, ++steps;
    while (meeting.generation == generation) yield();
}
static void settle(Barrier &barrier) {
    if (barrier.pending < 0) failure = BAD_BARRIER;
    if (barrier.pending == 0 && barrier.bytes == 0) barrier.pending = barrier.arrivals, ++barrier.phase, ++steps;
}
static Barrier &barrier_at(unsigned address) {
    at(address, 8);
    const auto found = barriers.find(address);
    if (found == barriers.end()) { failure = BAD_BARRIER; return barriers[address]; }
    return found->second;
}
static void arrived(unsigned barrier, long long bytes) {
    Barrier &here = barrier_at(barrier);
    here.bytes -= bytes;
    settle(here);
}
// A few copies and stores take very long, so that others overtake them by many.
static void later(std::function<void()> what) {
    const long long wait = dice() % 8 ? 0 : dice() % 100;
    in_flight.push_back({std::move(what), now + wait}), ++steps;
}
static void deliver() {  // some of what is under way, in any order
    for (unsigned tries = in_flight.size(); tries && dice() % 3; --tries) {
        Parcel &one = in_flight[dice() % in_flight.size()];
        if (one.due > now) continue;
        std::swap(one, in_flight.back());
        const auto what = std::move(in_flight.back().arrive);
        in_flight.pop_back();
        what();
        ++steps;
    }
}
}  // namespace host

static unsigned thread_of_block() { return host::me->thread; }
static unsigned char *shared_memory() { return host::block().memory.data(); }
static unsigned shared_address(const void *p) {
    return host::me->block << 24 | unsigned(static_cast<const unsigned char *>(p) - shared_memory());
}
static unsigned block_of_cluster() { return host::me->block; }
static unsigned in_block(unsigned address, unsigned rank) { return (address & 0xffffff) | rank << 24; }
static void barrier_init(unsigned barrier, unsigned arrivals) {
    host::at(barrier, 8);
    host::barriers[barrier] = {int(arrivals), int(arrivals), 0, 0};
}
static void barriers_ready() {}
static void barrier_arrive(unsigned barrier) {
    host::Barrier &here = host::barrier_at(barrier);
    --here.pending;
    host::settle(here);
}
static void barrier_expect(unsigned barrier, unsigned bytes) {
    host::barrier_at(barrier).bytes += bytes;
    barrier_arrive(barrier);
}
static void barrier_wait(unsigned barrier, unsigned parity) {
    while ((host::barrier_at(barrier).phase & 1) == parity) host::yield();
}
static void cluster_arrive() {
    host::me->cluster_generation = host::cluster.generation;
    if (++host::cluster.here == int(host::fibers.size())) host::cluster.here = 0, ++host::cluster.generation, ++host::steps;
}
static void cluster_wait() {
    while (host::cluster.generation == host::me->cluster_generation) host::yield();
}
static void copy_in(unsigned to, const float *from, unsigned bytes, unsigned barrier) {
    host::later([=] { std::memcpy(host::at(to, bytes), from, bytes), host::arrived(barrier, bytes); });
}
static void store_across(unsigned to, float4 value, unsigned barrier) {
    host::later([=] { std::memcpy(host::at(to, 16), &value, 16), host::arrived(barrier, 16); });
}
static void fence_for_copies() {}
static unsigned count_one(unsigned *counter) { return ++host::steps, (*counter)++; }
static void count_wait(const unsigned *counter, unsigned all) {
    while (*counter < all) host::yield();
}
static void clear(unsigned *counter) { *counter = 0, ++host::steps; }
static void next_may_begin() {}
static void wait_for_previous() {}
static void __syncthreads() { host::meet(host::block().all, host::threads); }
static void meet(unsigned barrier, unsigned threads) { host::meet(host::block().named[barrier], threads); }
static void __syncwarp() { host::meet(host::block().warps[host::me->thread / 32], 32); }
static float __shfl_xor_sync(unsigned, float value, int lanes) {
    host::block().exchanged[host::me->thread] = value;
    __syncwarp();
    const float other = host::block().exchanged[host::me->thread ^ lanes];
    __syncwarp();
    return other;
}

#include "megakernel.cu"

namespace host {
static void begin() {
    kernel();
    me->done = true;
    ++steps;
    yield();
}
static int run_cluster(unsigned index, int bytes) {
    blocks.assign(CLUSTER, {});
    barriers.clear(), in_flight.clear(), fibers.clear();
    cluster = {}, failure = FINISHED, threads = THREADS, first_block = index * CLUSTER;
    for (Block &each : blocks) {
        each.memory.assign(bytes, 0xff);  // every float is a NaN
        each.warps.resize(THREADS / 32), each.exchanged.resize(THREADS);
    }
    fibers.resize(CLUSTER * THREADS);
    for (unsigned i = 0; i < fibers.size(); ++i) {
        Fiber &fiber = fibers[i];
        fiber.block = i / THREADS, fiber.thread = i % THREADS, fiber.stack.reset(new char[STACK]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = STACK;
        makecontext(&fiber.context, begin, 0);
    }
    std::vector<unsigned> warps(CLUSTER * THREADS / 32);
    std::vector<long long> asleep(warps.size(), 0);  // until when: a warp may fall far behind the others
    for (unsigned i = 0; i < warps.size(); ++i) warps[i] = i;
    for (int idle = 0; idle < PATIENCE;) {
        const long long before = steps;
        ++now;
        bool running = false;
        std::shuffle(warps.begin(), warps.end(), dice);
        for (unsigned warp : warps) {
            if (dice() % 2 || asleep[warp] > now) continue;
            if (dice() % 64 == 0) asleep[warp] = now + dice() % 60;
            for (unsigned lane = 0; lane < 32; ++lane) {
                me = &fibers[warp * 32 + lane];
                if (me->done) continue;
                blockIdx.x = first_block + me->block;
                swapcontext(&scheduler, &me->context);
            }
            if (dice() % 4 == 0) deliver();
        }
        for (const Fiber &fiber : fibers) running |= !fiber.done;
        if (!running || failure) break;
        idle = steps == before && in_flight.empty() ? idle + 1 : 0;
        if (idle == PATIENCE) return DEADLOCK;
        deliver();
    }
    // A block's memory is gone when the block ends: what has not arrived by now went nowhere.
    return failure ? failure : in_flight.empty() ? FINISHED : BAD_ADDRESS;
}
}  // namespace host

extern "C" int brrr_host_run(const float *x, const float *weights, const float *biases, float *y, int batch, int layers,
                             int clusters, int bytes, unsigned seed, float *between, unsigned *counters) {
    host::dice.seed(seed);
    host::kernel = [=] { brrr_mega_cluster(x, weights, biases, y, batch, layers, between, counters); };
    for (int cluster = 0; cluster < clusters; ++cluster)
        if (const int wrong = host::run_cluster(cluster, bytes)) return wrong;
    return 0;
}
