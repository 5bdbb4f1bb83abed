// Runs sgemm.cu on a CPU, block by block, as plain C++: a test of its logic without a GPU.
// Every thread of a block is a fiber; they take turns in a random order. A copy into shared memory happens when its
// group is waited for, or a random while before, so that what is read too early is still the NaN that memory began with
// (or the number of an older step), and what is overwritten too early is wrong. Every address is checked.
// Compile it with the kernel's -D and the folder of sgemm.cu in -I; call sgemm_host_run.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#define HOST_EMULATION
#define __device__
#define __global__
#define __shared__
#define __restrict__
#define __align__(bytes)
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(16) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Index { unsigned x; };
static Index blockIdx, threadIdx, gridDim;
constexpr unsigned MEMORY_FLOATS = 57 * 1024;
extern "C" {
alignas(16) float memory[MEMORY_FLOATS];
}

namespace host {
enum { RIGHT = 0, BAD_SOURCE = 1, BAD_PLACE = 2, DEADLOCK = 3 };
struct Copy { unsigned to; const float *from; int bytes; };
struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool done = false;
    unsigned meetings = 0;
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static Fiber *me;
static int failure;
static unsigned here, generation;
static std::mt19937 dice;
static const float *begins[2], *ends[2];

static void yield() { swapcontext(&me->context, &scheduler); }
static bool readable(const float *from) {
    return (from >= begins[0] && from < ends[0]) || (from >= begins[1] && from < ends[1]);
}
static void happen(const Copy &copy) {
    if (copy.to >= MEMORY_FLOATS) failure = BAD_PLACE;
    else if (!copy.bytes) memory[copy.to] = 0;
    else if (!readable(copy.from)) failure = BAD_SOURCE;
    else memory[copy.to] = *copy.from;
}
static void oldest(Fiber &fiber) {
    for (const Copy &copy : fiber.groups.front()) happen(copy);
    fiber.groups.pop_front();
}
}  // namespace host

static unsigned shared_address(const float *place) { return unsigned(place - memory); }
static void copy_one(unsigned to, const float *from, int bytes);
static void __syncwarp() {}
static void copies_issued() {
    host::me->groups.push_back(host::me->open);
    host::me->open.clear();
}
template <int LEFT_OPEN>
static void wait_for_copies() {
    while (int(host::me->groups.size()) > LEFT_OPEN) host::oldest(*host::me);
}
static void __syncthreads() {
    const unsigned before = host::generation;
    if (++host::here == host::fibers.size()) host::here = 0, ++host::generation;
    while (host::generation == before) host::yield();
}

#include "sgemm.cu"

static void copy_one(unsigned to, const float *from, int bytes) {
    host::me->open.push_back({to, from, TAIL ? bytes : 4});
}

namespace host {
static const float *left, *right;
static float *out;
static int products, m, n, k, group;
static void enter() {
    brrr_sgemm(left, right, out, products, m, n, k, group);
    me->done = true;
    yield();
}
static void block(unsigned number) {
    for (float &each : memory) each = NAN;
    blockIdx.x = number, here = generation = 0;
    fibers.clear();
    fibers.resize(THREADS);
    for (Fiber &fiber : fibers) {
        fiber.stack.reset(new char[64 * 1024]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = 64 * 1024;
        makecontext(&fiber.context, enter, 0);
    }
    std::vector<unsigned> order(THREADS);
    for (unsigned i = 0; i < THREADS; ++i) order[i] = i;
    for (unsigned left_over = THREADS, idle = 0; left_over && !failure;) {
        const unsigned before = generation, count = left_over;
        std::shuffle(order.begin(), order.end(), dice);
        for (unsigned thread : order) {
            Fiber &fiber = fibers[thread];
            if (fiber.done) continue;
            if (fiber.groups.size() && dice() % 4 == 0) oldest(fiber);  // a copy may come early
            me = &fiber, threadIdx.x = thread;
            swapcontext(&scheduler, &fiber.context);
            left_over -= fiber.done;
        }
        idle = before == generation && count == left_over ? idle + 1 : 0;
        if (idle > 4) failure = DEADLOCK;
    }
}
}  // namespace host

extern "C" int sgemm_host_run(const float *left, const float *right, float *out, int products, int m, int n, int k,
                              int group, int blocks, unsigned seed) {
    using namespace host;
    host::left = left, host::right = right, host::out = out;
    host::products = products, host::m = m, host::n = n, host::k = k, host::group = group;
    begins[0] = left, ends[0] = left + size_t(products) * m * k;
    begins[1] = right, ends[1] = right + size_t(products) * n * k;
    failure = RIGHT, dice.seed(seed), gridDim.x = unsigned(blocks);
    for (int number = 0; number < blocks && !failure; ++number) block(unsigned(number));
    return failure;
}
extern "C" int sgemm_shared_bytes() { return STAGES * STAGE_FLOATS * 4; }
extern "C" int sgemm_threads() { return THREADS; }
