// Runs megakernel.cu on a CPU, block by block and thread by thread, as plain C++: a test of its logic without a GPU.
// Every thread of a cluster is a fiber; they take turns in a random order. What the GPU does in its own time (copies into
// shared memory, stores to other blocks) is put off for a random while, so that whatever is used before it was waited for
// is still the NaN that memory began with, and whatever is overwritten too early is wrong.
// Compile it with the kernel's -D and the folder of megakernel.cu in -I; call brrr_host_run (see test_megakernel.py).
#include "fibers.cuh"

namespace host {
constexpr int PATIENCE = 400;
static std::vector<std::vector<float>> exchanged;
static std::vector<unsigned> arrived_in;  // the cluster's generation when each fiber arrived
static Meeting cluster;

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
static unsigned char *shared_memory() { return host::memories[host::me->block].data(); }
static unsigned shared_address(const void *p) {
    return host::me->block << 24 | unsigned(static_cast<const unsigned char *>(p) - shared_memory());
}
static unsigned in_block(unsigned address, unsigned rank) { return (address & 0xffffff) | rank << 24; }
static void cluster_arrive() {
    host::arrived_in[host::me - host::fibers.data()] = host::cluster.generation;
    if (++host::cluster.here == int(host::fibers.size())) host::cluster.here = 0, ++host::cluster.generation, ++host::steps;
}
static void cluster_wait() {
    while (host::cluster.generation == host::arrived_in[host::me - host::fibers.data()]) host::yield();
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
static void meet(unsigned barrier, unsigned threads) { host::meet(3 << 16 | host::me->block << 8 | barrier, threads); }
static float __shfl_xor_sync(unsigned, float value, int lanes) {
    host::exchanged[host::me->block][host::me->thread] = value;
    __syncwarp();
    const float other = host::exchanged[host::me->block][host::me->thread ^ lanes];
    __syncwarp();
    return other;
}

#include "megakernel.cu"

namespace host {
static int run_cluster(unsigned index, int bytes) {
    first_block = index * CLUSTER, cluster = {};
    start(CLUSTER, THREADS, bytes, 0xff);  // every float is a NaN
    exchanged.assign(CLUSTER, std::vector<float>(THREADS)), arrived_in.assign(fibers.size(), 0);
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
                if (Fiber &fiber = fibers[warp * 32 + lane]; !fiber.done) resume(fiber);
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
