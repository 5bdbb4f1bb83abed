// Threads of a GPU on a CPU, for the emulations beside this file: each is a fiber, and they take turns in a random order.
// Addresses of shared memory have their block in the upper eight bits. What the GPU does in its own time is a parcel, which
// the emulation that sends it delivers: whatever is used before it was waited for is still what memory began with.
#pragma once
#include <ucontext.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "cuda_words.cuh"

namespace host {
constexpr int STACK = 128 * 1024;
enum { FINISHED = 0, DEADLOCK = 1, BAD_ADDRESS = 2, BAD_BARRIER = 3 };
struct Meeting { int here = 0; unsigned generation = 0, most = 0, found = 0; };
struct Barrier { int arrivals = 0, pending = 0; long long bytes = 0; unsigned phase = 0; };
struct Fiber { ucontext_t context; std::unique_ptr<char[]> stack; unsigned block = 0, thread = 0; bool done = false; };
struct Parcel { std::function<void()> arrive; long long due; };
static std::vector<Fiber> fibers;
static std::vector<std::vector<unsigned char>> memories;
static std::map<unsigned, Barrier> barriers;
static std::map<unsigned, Meeting> meetings;
static std::vector<Parcel> in_flight;
static std::mt19937 dice;
static ucontext_t scheduler;
static Fiber *me;
static int failure, threads;
static unsigned first_block;
static long long now, steps;  // rounds of the scheduler; what has happened
static std::function<void()> kernel;

static void yield() { swapcontext(&me->context, &scheduler); }
static void resume(Fiber &fiber) {
    me = &fiber, threadIdx.x = fiber.thread, blockIdx.x = first_block + fiber.block;
    swapcontext(&scheduler, &fiber.context);
}
static unsigned mine(unsigned address) { return address | me->block << 24; }
static unsigned char *at(unsigned address, unsigned bytes) {
    const unsigned rank = address >> 24, offset = address & 0xffffff;
    if (rank >= memories.size() || offset + bytes > memories[rank].size() || offset % min(bytes, 16u)) {
        failure = BAD_ADDRESS;
        static unsigned char nowhere[1 << 20];
        return nowhere;
    }
    return memories[rank].data() + offset;
}
static unsigned meet(unsigned which, int count, unsigned value = 0) {  // the largest value that one of them has brought
    Meeting &meeting = meetings[which];
    const unsigned generation = meeting.generation;
    meeting.most = max(meeting.most, value);
    if (++meeting.here == count) {
        meeting.here = 0, ++meeting.generation, ++steps, meeting.found = meeting.most, meeting.most = 0;
    }
    while (meeting.generation == generation) yield();
    return meeting.found;
}
static unsigned of_block() { return 2 << 16 | me->block; }
static unsigned of_warp() { return 1 << 16 | me->block << 8 | me->thread / 32; }
static void settle(Barrier &barrier) {
    if (barrier.pending < 0) failure = BAD_BARRIER;
    if (barrier.pending == 0 && barrier.bytes == 0) barrier.pending = barrier.arrivals, ++barrier.phase, ++steps;
}
static Barrier &barrier_at(unsigned address) {
    at(address, 8);
    if (!barriers.count(address)) failure = BAD_BARRIER;
    return barriers[address];
}
static void begin() {
    kernel();
    me->done = true, ++steps;
    yield();
}
// Blocks whose memory begins with these bytes.
static void start(unsigned blocks, unsigned threads_of_each, size_t bytes, unsigned char filler) {
    memories.assign(blocks, std::vector<unsigned char>(bytes, filler));
    barriers.clear(), meetings.clear(), in_flight.clear(), fibers.clear();
    failure = FINISHED, threads = threads_of_each;
    fibers.resize(blocks * threads);
    for (size_t i = 0; i < fibers.size(); ++i) {
        Fiber &fiber = fibers[i];
        fiber.block = i / threads, fiber.thread = i % threads, fiber.stack.reset(new char[STACK]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = STACK;
        makecontext(&fiber.context, begin, 0);
    }
}
static void deliver();  // what is due of the parcels
// All of them to their end, in another order each so many rounds; DEADLOCK after so many in which nothing happens.
static int run(int rounds, int patience) {
    std::vector<size_t> order(fibers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    long long last_step = 0, last_seen = -1;
    for (now = 0;; ++now) {
        if (now % rounds == 0) std::shuffle(order.begin(), order.end(), dice);
        size_t done = 0;
        for (size_t i : order) {
            if (fibers[i].done) ++done;
            else resume(fibers[i]);
            if (failure) return failure;
        }
        if (done == fibers.size()) return in_flight.empty() ? FINISHED : BAD_BARRIER;
        deliver();
        if (steps != last_seen) last_seen = steps, last_step = now;
        if (now - last_step > patience) return DEADLOCK;
    }
}
}  // namespace host

static inline void __syncthreads() { host::meet(host::of_block(), host::threads); }
static inline void __syncwarp() { host::meet(host::of_warp(), 32); }
static inline void barrier_init(unsigned barrier, unsigned arrivals) {
    host::at(host::mine(barrier), 8);
    host::barriers[host::mine(barrier)] = {int(arrivals), int(arrivals), 0, 0};
}
static inline void barriers_ready() {}
static inline void barrier_arrive_in(unsigned block, unsigned barrier) {
    host::Barrier &there = host::barrier_at(barrier | block << 24);
    --there.pending, host::settle(there);
}
static inline void barrier_arrive(unsigned barrier) { barrier_arrive_in(host::me->block, barrier); }
static inline void barrier_expect(unsigned barrier, unsigned bytes) {
    host::barrier_at(host::mine(barrier)).bytes += bytes;
    barrier_arrive(barrier);
}
static inline void barrier_wait(unsigned barrier, unsigned parity) {  // for the end of the phase of this parity
    while ((host::barrier_at(host::mine(barrier)).phase & 1) == parity) host::yield();
}
static inline unsigned block_of_cluster() { return host::me->block; }
