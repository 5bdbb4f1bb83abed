// Runs split_product.cu on a CPU, block by block and thread by thread, as plain C++: a test of its logic without a GPU.
// Every thread of a cluster is a fiber; they take turns in a random order. What the GPU does in its own time is put off:
// copies for a random while, products until they are waited for. So whatever is used before it was waited for is still the
// NaN that memory began with, and a slot that is given back too early is overwritten before it is multiplied. Swizzles and
// the tensor cores' matrix descriptions are as PTX ISA describes them ("Shared Memory Matrix Layout", "Swizzling Modes").
// Compile with the kernel's -D and its folder in -I; call brrr_host_run (see test_strassen_split_host.py).
#include <deque>

#include "fibers.cuh"

using u64 = uint64_t;

// A matrix of float16 for the copy engine: what the driver's map says of it.
struct TensorMap { const uint16_t *data; long long columns, rows, row_numbers; int box_columns, box_rows; };

namespace host {
constexpr unsigned BASE = 256;  // where shared memory begins: not where a swizzle's pattern does
struct Product { float *d; uint64_t a, b; unsigned keep; int n; };
static std::map<Fiber *, std::vector<Product>> open;
static std::map<Fiber *, std::deque<std::vector<Product>>> groups;
static std::vector<float> halves;

static void deliver() {
    std::vector<Parcel> all;
    all.swap(in_flight);
    for (Parcel &each : all) {
        if (each.due <= now) each.arrive(), ++steps;
        else in_flight.push_back(std::move(each));
    }
}
// The 16-byte pieces of a row, permuted: bits 4 to 6 of an address (4 and 5) take those from bit 7 on.
static unsigned swizzled(unsigned address, int row_bytes) {
    return address ^ (address >> 3 & (row_bytes == 128 ? 0x70u : 0x30u));
}
static void send(unsigned block, unsigned to, const TensorMap &map, int k, int row, unsigned barrier) {
    const int row_bytes = map.box_columns * 2;
    if (to % 16 || to % (8 * row_bytes)) failure = BAD_ADDRESS;
    auto arrive = [=] {
        for (int r = 0; r < map.box_rows; ++r)
            for (int c = 0; c < map.box_columns; ++c) {
                const bool inside = row + r < map.rows && k + c < map.columns;
                const uint16_t x = inside ? map.data[(row + r) * map.row_numbers + k + c] : 0;
                std::memcpy(at(swizzled(to + r * row_bytes + 2 * c, row_bytes) | block << 24, 2), &x, 2);
            }
        Barrier &counted = barriers.at(barrier | block << 24);
        counted.bytes -= static_cast<long long>(map.box_rows) * row_bytes;
        settle(counted);
    };
    in_flight.push_back({arrive, now + static_cast<long long>(dice() % 12)});
}
// A number of a matrix as the tensor cores find it by a description: 8 rows a pattern, patterns a stride apart.
static float number(uint64_t matrix, int row, int k) {
    const int row_bytes = matrix >> 62 == 1 ? 128 : matrix >> 62 == 2 ? 64 : 0;
    if (!row_bytes) return NAN;
    const unsigned start = (matrix & 0x3fff) << 4, stride = (matrix >> 32 & 0x3fff) << 4;
    const unsigned address = start + row / 8 * stride + row % 8 * row_bytes + 2 * k;
    uint16_t bits;
    std::memcpy(&bits, at(mine(swizzled(address, row_bytes)), 2), 2);
    return halves[bits];
}
static void multiplied(const Product &p) {  // this thread's share: rows and columns as PTX ISA's figure of the result has them
    const int thread = me->thread % 128, row = thread / 32 * 16 + thread % 32 / 4;
    float a[2][16];
    for (int i = 0; i < 32; ++i) a[i / 16][i % 16] = number(p.a, row + 8 * (i / 16), i % 16);
    for (int j = 0; j < p.n / 8; ++j)
        for (int c = 0; c < 2; ++c) {
            double sums[2] = {0, 0};
            for (int k = 0; k < 16; ++k) {
                const float b = number(p.b, 8 * j + thread % 4 * 2 + c, k);
                for (int down = 0; down < 2; ++down) sums[down] += double(a[down][k]) * b;
            }
            for (int down = 0; down < 2; ++down) {
                float &d = p.d[4 * j + 2 * down + c];
                d = float(sums[down] + (p.keep ? d : 0.0f));
            }
        }
}
static void finish(size_t pending) {
    auto &mine = groups[me];
    for (; mine.size() > pending; mine.pop_front())
        for (const Product &each : mine.front()) multiplied(each);
}
}  // namespace host

static inline unsigned __cvta_generic_to_shared(const void *) { return host::BASE; }
static inline int __shfl_sync(unsigned, int value, int) { return value; }  // used for what is the same in a warp
static inline void cluster_meet() { host::meet(3 << 16, host::threads * int(host::memories.size())); }
static inline void load_box(unsigned to, const TensorMap &map, int k, int row, unsigned barrier) {
    host::send(host::me->block, to, map, k, row, barrier);
}
static inline void load_box_for_both(unsigned to, const TensorMap &map, int k, int row, unsigned barrier) {
    for (unsigned block = 0; block < 2; ++block) host::send(block, to, map, k, row, barrier);
}
static inline void prefetch(const TensorMap &) {}
template <int COUNT> void registers_more() {}
template <int COUNT> void registers_fewer() {}
static inline void multiply_fence() {}
static inline void multiply_commit() {
    host::groups[host::me].push_back(std::move(host::open[host::me])), host::open[host::me].clear();
    if (host::dice() % 4 == 0) host::yield();
}
template <int PENDING> void multiply_wait() { host::finish(PENDING); }
template <int COUNT> void after_this(float (&)[COUNT]) {}
template <int N> void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, unsigned keep) {
    host::open[host::me].push_back({d, a, b, keep, N});
}
unsigned char raw[1];

#include "split_product.cu"

// maps: data, columns, rows, numbers a row, box columns, box rows of each of the four; blocks: the grid.
extern "C" int brrr_host_run(const long long *maps, float *out, const int *left, const int *right, const void *grid,
                             const float *halves, int blocks, int shared_bytes, unsigned seed) {
    TensorMap map[4];
    for (int i = 0; i < 4; ++i, maps += 6)
        map[i] = {reinterpret_cast<const uint16_t *>(maps[0]), maps[1], maps[2], maps[3], int(maps[4]), int(maps[5])};
    TileGrid p;
    std::memcpy(&p, grid, sizeof p);
    host::halves.assign(halves, halves + 65536);
    host::dice.seed(seed), gridDim.x = blocks;
    host::kernel = [&] { brrr_split_product(map[0], map[1], map[2], map[3], out, left, right, p); };
    for (host::first_block = 0; host::first_block < blocks; host::first_block += CLUSTER) {
        host::open.clear(), host::groups.clear();
        host::start(CLUSTER, THREADS, host::BASE + shared_bytes, 0xff);  // 0xffff is a NaN
        if (const int wrong = host::run(1, 400)) return wrong;
    }
    return host::FINISHED;
}
