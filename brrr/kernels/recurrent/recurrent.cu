// A recurrent layer over all of its time steps, in one launch. On a CPU, for a tanh RNN, that would be:
//
//     for (int t = 0; t < steps; ++t)
//         for (int b = 0; b < batch; ++b)
//             for (int row = 0; row < HIDDEN; ++row) {
//                 float sum = inputs[t][b][row];                       // the input's product, made beforehand
//                 for (int k = 0; k < HIDDEN; ++k) sum += weights[row][k] * state[t - 1][b][k];
//                 state[t][b][row] = tanh(sum);
//             }
//
// A launch a step reads the weights from memory again at each step. Here they are read once and stay on the chip:
//
//   rows     The GROUP_BLOCKS blocks of a group share out the rows of the matrix. Each holds its own in registers, those
//            of SHARED_CHUNKS in shared memory. Groups hold copies of the matrix, and each takes part of the batch.
//   columns  The WARPS warps of a block share out the columns: each holds CHUNKS chunks. A lane reads from L2 just
//            what its own weights are multiplied with, 16 bytes at a time, so the state needs no shared memory.
//   float    8 lanes share out a chunk's columns, and 4 groups of 8 lanes the rows, LANE_ROWS each.
//   half     16 rows by 16 columns are one operand of a tensor core's mma, with 8 samples of the batch as the other.
//   SPLIT    float on tensor cores: each factor is the sum of two numbers of the short type tf32, and of the four products
//            the three that matter are added up in float. That keeps 22 bits of each factor at any size of its own.
//   sums     Warps add up their sums through shared memory, one __syncthreads for SAMPLES samples of the batch.
//   between  A step needs all of the state before it, which other blocks compute. There is no barrier: the state's memory
//            is filled beforehand with a pattern that no result has (EMPTY), and each lane reads the words that it needs
//            again until none is empty. A word is its own flag, so no fence and no order of other words matter. (To ask
//            for the next samples before these are computed gained nothing, and takes registers from the weights.)
//
// BACKWARD runs through time the other way: the matrix is the transposed one, and what is exchanged are the gradients of
// the values in front of the activation, for an LSTM those of all four gates.
//
// The numbers are given by the compiler's -D, each of them; plan.py tells how they are chosen:
//
//     HIDDEN; KIND 0: tanh, 1: relu, 2: an LSTM; TYPE 0: float, 1: half, 2: bfloat16; SPLIT: float only; BACKWARD
//     TRAIN: keep what the gradient needs; WARPS, CHUNKS, SHARED_CHUNKS; LANE_ROWS: rows a lane, with tensor cores tiles
//     of 16 rows a warp; SAMPLES; GROUP_BLOCKS, GROUP_BATCH; WATCH: polls after which a block gives up, 0: it never does
//
// Read next: plan.py, which shares out the work, and running.py, which launches it.
// By itself, checked and timed: python -m brrr.kernels.recurrent
#define UNROLL _Pragma("unroll")

constexpr bool IS_HALF = TYPE != 0, IS_LSTM = KIND == 2, TILES = IS_HALF || SPLIT;
constexpr int THREADS = WARPS * 32, CHUNK = SPLIT ? 16 : 32;
constexpr int ROWS = TILES ? 16 * LANE_ROWS : 4 * LANE_ROWS;             // of the matrix, a block
constexpr int GATES = IS_LSTM && !BACKWARD ? 4 : 1, UNITS = ROWS / GATES;  // of the state, a block
constexpr int COLUMNS = IS_LSTM && BACKWARD ? 4 * HIDDEN : HIDDEN;       // of the matrix
constexpr int LANES = TILES ? 4 : 8, WIDTH = CHUNK / LANES;              // lanes a chunk, columns a lane
constexpr int SETS = TILES ? SAMPLES / 8 : SAMPLES;                      // samples a lane
constexpr int PARTS = TILES ? 2 * LANE_ROWS : LANE_ROWS;                 // words of weights a lane and chunk
constexpr int KEPT = CHUNKS - SHARED_CHUNKS;                             // chunks in registers
constexpr int PITCH = ROWS + 4, SUMS = SAMPLES * PITCH;
constexpr int EACH = (ROWS * SAMPLES + THREADS - 1) / THREADS;           // results a thread
constexpr int PER_STEP = (GROUP_BATCH + SAMPLES - 1) / SAMPLES;
constexpr int SAVED = !BACKWARD ? 1 : IS_LSTM ? 7 : 2;                   // values that a result needs
constexpr int DISTANCE = 3;                                              // steps ahead that L2 is told of
constexpr unsigned EMPTY = 0xffffffffu;

typedef unsigned short Half;
#if TYPE == 0
typedef float Element;
#else
typedef Half Element;
#endif

__device__ __forceinline__ float number(float value) { return value; }
__device__ __forceinline__ float number(Half bits) {
#if TYPE == 2
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
}
__device__ __forceinline__ unsigned bits_of(float value) {  // in the low bits; never those of an empty word
#if TYPE == 0
    const unsigned bits = __float_as_uint(value);
    return bits == EMPTY ? 0x7fffffffu : bits;
#else
    Half bits;
#if TYPE == 2
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#endif
    return bits == 0xffff ? 0x7fffu : bits;
#endif
}
__device__ __forceinline__ void put(float *to, float value) { *to = value; }
__device__ __forceinline__ void put(Half *to, float value) { *to = static_cast<Half>(bits_of(value)); }

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ __forceinline__ float hyperbolic(float x) { return IS_HALF ? 2.0f * sigmoid(2.0f * x) - 1.0f : tanhf(x); }

__device__ __forceinline__ uint4 peek(const void *address) {  // from L2, whoever wrote it last
    uint4 word;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w) : "l"(address) : "memory");
    return word;
}
__device__ __forceinline__ void send(void *address, unsigned word) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(word) : "memory");
}
__device__ __forceinline__ bool empty(uint4 word) {
    return (word.x == EMPTY) | (word.y == EMPTY) | (word.z == EMPTY) | (word.w == EMPTY);
}
// A result of this lane's. Halves go out two at a time, since a word must never be half empty: `apart` lanes on is the
// neighbour's.
__device__ __forceinline__ void publish(Element *to, float value, bool valid, int apart, bool odd) {
    const unsigned bits = bits_of(value);
#if TYPE == 0
    if (valid) send(to, bits);
#else
    const unsigned other = __shfl_down_sync(~0u, bits, apart);
    if (valid && !odd) send(to, bits | other << 16);
#endif
}

struct State {  // what a lane reads for some samples
    uint4 words[SETS][CHUNKS];
};
struct Needed {  // what a thread's results need beside the sums
    float values[EACH][SAVED];
};
struct Place {  // some samples of one step
    int step, first;
    __device__ void next() {
        first += SAMPLES;
        if (first >= PER_STEP * SAMPLES) first = 0, ++step;
    }
};

// sum += a * b on a tensor core: 16 rows by 8 samples; over 16 columns of a half type, or 8 of tf32.
__device__ __forceinline__ void mma(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if TYPE == 2
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
#elif TYPE == 1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
#elif SPLIT
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
#endif
#if TYPE || SPLIT
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
struct Split {  // four floats, each as the nearest tf32 and what is left of it
    unsigned high[4], low[4];
    __device__ void take(uint4 word) {
        const unsigned bits[4] = {word.x, word.y, word.z, word.w};
        UNROLL for (int k = 0; k < 4; ++k) {
            // volatile: made anew at each step. Kept over the steps, they would need the registers that the weights need.
            asm volatile("{.reg .u32 r; add.u32 r, %1, 0x1000; and.b32 %0, r, 0xffffe000;}" : "=r"(high[k]) : "r"(bits[k]));
            low[k] = __float_as_uint(__uint_as_float(bits[k]) - __uint_as_float(high[k]));
        }
    }
};

// Sums of COUNT values over 8 lanes: at each of three exchanges a lane hands over half of its values and keeps the sums
// of the other half, or, where they are odd in number, keeps all. `begin` becomes the place of the first one kept.
template <int COUNT, int LANE>
__device__ __forceinline__ void add_up(float *values, int lane, int &begin, bool &mine) {
    if constexpr (COUNT % 2 == 0) {
        const bool upper = lane & LANE;
        UNROLL for (int k = 0; k < COUNT / 2; ++k) {
            const float keep = upper ? values[k + COUNT / 2] : values[k];
            const float give = upper ? values[k] : values[k + COUNT / 2];
            values[k] = keep + __shfl_xor_sync(~0u, give, LANE);
        }
        begin += upper ? COUNT / 2 : 0;
        if constexpr (LANE > 1) add_up<COUNT / 2, LANE / 2>(values, lane, begin, mine);
    } else {
        UNROLL for (int k = 0; k < COUNT; ++k) values[k] += __shfl_xor_sync(~0u, values[k], LANE);
        mine = mine && !(lane & LANE);
        if constexpr (LANE > 1) add_up<COUNT, LANE / 2>(values, lane, begin, mine);
    }
}
__device__ constexpr int halved(int count, int times) { return times && count % 2 == 0 ? halved(count / 2, times - 1) : count; }

extern "C" __global__ __launch_bounds__(THREADS, 1) void brrr_recurrent(
    const Element *weights,   // (rows, COLUMNS)
    Element *state,           // (steps, batch, COLUMNS), all EMPTY: the results, exchanged between the blocks
    const Element *before,    // (batch, HIDDEN): the state in front of the first step, or null for zeros
    Element *inputs,          // forward: (steps, batch, GATES * HIDDEN), an LSTM's TRAIN puts its gates in their place
                              // backward: (steps, batch, HIDDEN), the results' gradients
    const Element *saved,     // backward: (steps, batch, HIDDEN) the results, or an LSTM's gates (.., 4 * HIDDEN)
    float *cells,             // an LSTM's cells: (steps, batch, HIDDEN) with TRAIN or BACKWARD
    const float *cell_before,  // (batch, HIDDEN) or null: the cells in front of the first step
    const float *cell_end,    // backward: (batch, HIDDEN) or null: the gradient of the last cells
    float *cell_out,          // (batch, HIDDEN): the last cells; backward: the gradient of the first ones
    int steps, int batch, int *late) {
    extern __shared__ uint4 memory[];
    uint4 *const shared_weights = memory;
    float *const sums = reinterpret_cast<float *>(memory + SHARED_CHUNKS * THREADS * PARTS);
    float *const cell = sums + 2 * WARPS * SUMS;  // (GROUP_BATCH, UNITS)
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int group = blockIdx.x / GROUP_BLOCKS, first_unit = blockIdx.x % GROUP_BLOCKS * UNITS;
    const int first_sample = group * GROUP_BATCH, samples = min(GROUP_BATCH, batch - first_sample);
    const int lane_row = lane / LANES, lane_column = lane % LANES * WIDTH;
    const auto column = [&](int chunk) { return (warp * CHUNKS + chunk) * CHUNK + lane_column; };
    const auto row_of = [&](int row) {  // where a block's row stands in the matrix, or -1
        const int unit = first_unit + row / GATES;
        return unit < HIDDEN ? row % GATES * HIDDEN + unit : -1;
    };
    const auto weight = [&](int row, int chunk) -> uint4 {
        const int at = row_of(row);
        if (at < 0 || column(chunk) >= COLUMNS) return uint4{0, 0, 0, 0};
        return *reinterpret_cast<const uint4 *>(weights + static_cast<long long>(at) * COLUMNS + column(chunk));
    };

    // The weights: a lane's rows are `lane_row` and those 8 further in each tile, or LANE_ROWS of its own.
    const auto part_row = [&](int part) {
        if (TILES) return part / 2 * 16 + part % 2 * 8 + lane_row;
        return GATES == 4 ? part * 4 + lane_row : lane_row * LANE_ROWS + part;
    };
    uint4 kept[KEPT > 0 ? KEPT : 1][PARTS];
    UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk)
        UNROLL for (int part = 0; part < PARTS; ++part) {
            const uint4 word = weight(part_row(part), chunk);
            if (chunk < KEPT) kept[chunk][part] = word;
            else shared_weights[((chunk - KEPT) * PARTS + part) * THREADS + thread] = word;
        }

    // A thread's results: of row `row`, which is a unit's gate, for a sample of those under way.
    const auto time = [&](int step) { return BACKWARD ? steps - 1 - step : step; };
    const auto result = [&](int each, int &row, int &sample) {
        const int index = each * THREADS + thread;
        row = index % ROWS, sample = index / ROWS;
        return sample < SAMPLES && first_unit + row / GATES < HIDDEN;
    };
    const auto place_of = [&](int step, int sample) {  // of a sample's values in a tensor (steps, batch, ..)
        return static_cast<long long>(time(step)) * batch + first_sample + sample;
    };
    if (IS_LSTM)
        for (int index = thread; index < GROUP_BATCH * UNITS; index += THREADS) {
            const int sample = index / UNITS, unit = first_unit + index % UNITS;
            const float *const from = BACKWARD ? cell_end : cell_before;
            const bool valid = from && sample < samples && unit < HIDDEN;
            cell[index] = valid ? from[static_cast<long long>(first_sample + sample) * HIDDEN + unit] : 0.0f;
        }
    __syncthreads();

    const auto lane_sample = [&](const Place &place, int set) { return place.first + (TILES ? set * 8 + lane / 4 : set); };
    const auto row_before = [&](const Place &place, int set) {  // of a lane's sample, in the state before a step
        const int sample = lane_sample(place, set);
        if (place.step) return const_cast<const Element *>(state) + place_of(place.step - 1, sample) * COLUMNS;
        return before + static_cast<long long>(first_sample + sample) * COLUMNS;
    };
    const auto ask = [&](State &read, const Place &place) {
        const bool zeros = place.step >= steps || (!place.step && !before);
        UNROLL for (int set = 0; set < SETS; ++set) {
            const bool valid = !zeros && lane_sample(place, set) < samples;
            const Element *const row = row_before(place, set);
            UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                read.words[set][chunk] = uint4{0, 0, 0, 0};
                if (valid && column(chunk) < COLUMNS) read.words[set][chunk] = peek(row + column(chunk));
            }
        }
    };
    bool given_up = false;
    const auto wait = [&](State &read, const Place &place) {
        if (!place.step) return;  // given from outside: complete, whatever it is
        for (unsigned polls = 0;; ++polls) {
            bool missing[SETS][CHUNKS], any = false;
            UNROLL for (int set = 0; set < SETS; ++set)
                UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk) any |= missing[set][chunk] = empty(read.words[set][chunk]);
            if (!__any_sync(~0u, any) || given_up) break;
            if (WATCH && __any_sync(~0u, polls > WATCH || (polls % 1024 == 1023 && *static_cast<volatile int *>(late))))
                given_up = true, *late = 1;
            UNROLL for (int set = 0; set < SETS; ++set)
                UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk)
                    if (missing[set][chunk]) read.words[set][chunk] = peek(row_before(place, set) + column(chunk));
        }
        __syncwarp();
    };
    const auto need = [&](Needed &needed, const Place &place) {  // asked for one place ahead: it may lie in DRAM
        if (place.step >= steps) return;
        UNROLL for (int each = 0; each < EACH; ++each) {
            int row, sample;
            const bool valid = result(each, row, sample) && place.first + sample < samples;
            if (!valid) continue;
            const long long at = place_of(place.step, place.first + sample);
            if (IS_HALF && place.step + DISTANCE < steps)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(
                    inputs + place_of(place.step + DISTANCE, place.first + sample) * (GATES * HIDDEN) + row_of(row)));
            needed.values[each][0] = number(inputs[at * (GATES * HIDDEN) + row_of(row)]);
#if BACKWARD && KIND != 2
            needed.values[each][1] = number(saved[at * HIDDEN + first_unit + row]);
#elif BACKWARD
            const int unit = first_unit + row;
            UNROLL for (int gate = 0; gate < 4; ++gate)
                needed.values[each][1 + gate] = number(saved[at * 4 * HIDDEN + gate * HIDDEN + unit]);
            needed.values[each][5] = cells[at * HIDDEN + unit];
            const bool first = place.step == steps - 1;
            const long long own = static_cast<long long>(first_sample + place.first + sample) * HIDDEN + unit;
            needed.values[each][6] = !first ? cells[(at - batch) * HIDDEN + unit] : cell_before ? cell_before[own] : 0.0f;
#endif
        }
    };

    [[maybe_unused]] const auto put_tile = [&](float *to, int tile, int set, const float (&one)[4], const float (&other)[4]) {
        UNROLL for (int k = 0; k < 4; ++k)
            to[(set * 8 + lane % 4 * 2 + k % 2) * PITCH + tile * 16 + k / 2 * 8 + lane / 4] = one[k] + other[k];
    };
    const auto multiply = [&](const State &read, float *to) {
        const auto word = [&](int chunk, int part) {
            return chunk < KEPT ? kept[chunk < KEPT ? chunk : 0][part]
                                : shared_weights[((chunk - KEPT) * PARTS + part) * THREADS + thread];
        };
#if !TYPE && !SPLIT
        float values[LANE_ROWS * SAMPLES] = {};
        UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk)
            UNROLL for (int part = 0; part < PARTS; ++part) {
                const uint4 w = word(chunk, part);
                UNROLL for (int sample = 0; sample < SAMPLES; ++sample) {
                    const uint4 h = read.words[sample][chunk];
                    float &sum = values[sample * LANE_ROWS + part];
                    sum = fmaf(__uint_as_float(w.x), __uint_as_float(h.x), sum);
                    sum = fmaf(__uint_as_float(w.y), __uint_as_float(h.y), sum);
                    sum = fmaf(__uint_as_float(w.z), __uint_as_float(h.z), sum);
                    sum = fmaf(__uint_as_float(w.w), __uint_as_float(h.w), sum);
                }
            }
        int begin = 0;
        bool mine = true;
        add_up<LANE_ROWS * SAMPLES, 4>(values, lane, begin, mine);
        constexpr int LEFT = halved(LANE_ROWS * SAMPLES, 3);
        if (mine)
            UNROLL for (int k = 0; k < LEFT; ++k) to[(begin + k) / LANE_ROWS * PITCH + part_row((begin + k) % LANE_ROWS)] = values[k];
#elif SPLIT
        float large[LANE_ROWS][SETS][4] = {}, small[LANE_ROWS][SETS][4] = {};
        UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            Split states[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) states[set].take(read.words[set][chunk]);
            UNROLL for (int tile = 0; tile < LANE_ROWS; ++tile) {
                Split upper, lower;
                upper.take(word(chunk, 2 * tile)), lower.take(word(chunk, 2 * tile + 1));
                UNROLL for (int set = 0; set < SETS; ++set) {
                    const Split &h = states[set];
                    UNROLL for (int k = 0; k < 4; k += 2) {
                        const unsigned high[4] = {upper.high[k], lower.high[k], upper.high[k + 1], lower.high[k + 1]};
                        const unsigned low[4] = {upper.low[k], lower.low[k], upper.low[k + 1], lower.low[k + 1]};
                        mma(large[tile][set], high, h.high[k], h.high[k + 1]);
                        mma(small[tile][set], high, h.low[k], h.low[k + 1]);
                        mma(small[tile][set], low, h.high[k], h.high[k + 1]);
                    }
                }
            }
        }
        UNROLL for (int tile = 0; tile < LANE_ROWS; ++tile)
            UNROLL for (int set = 0; set < SETS; ++set) put_tile(to, tile, set, large[tile][set], small[tile][set]);
#else
        UNROLL for (int tile = 0; tile < LANE_ROWS; ++tile)
            UNROLL for (int set = 0; set < SETS; ++set) {
                float even[4] = {}, odd[4] = {};  // two chains of sums, since one waits for itself
                UNROLL for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                    const uint4 upper = word(chunk, 2 * tile), lower = word(chunk, 2 * tile + 1);
                    const uint4 h = read.words[set][chunk];
                    mma(even, {upper.x, lower.x, upper.y, lower.y}, h.x, h.y);
                    mma(odd, {upper.z, lower.z, upper.w, lower.w}, h.z, h.w);
                }
                put_tile(to, tile, set, even, odd);
            }
#endif
    };

    const auto finish = [&](const float *partial, const Needed &needed, const Place &place) {
        UNROLL for (int each = 0; each < EACH; ++each) {
            int row, sample;
            if (each * THREADS + warp * 32 >= ROWS * SAMPLES) break;  // no lane of this warp has a result
            const bool valid = result(each, row, sample) && place.first + sample < samples;
            const int local = place.first + sample, unit = first_unit + row / GATES;
            const long long at = place_of(place.step, local);
            float sum = valid ? needed.values[each][0] : 0.0f;
            if (sample < SAMPLES)
                UNROLL for (int w = 0; w < WARPS; ++w) sum += partial[w * SUMS + sample * PITCH + row];
#if !BACKWARD && KIND != 2
            publish(state + at * HIDDEN + unit, KIND == 1 ? (sum < 0.0f ? 0.0f : sum) : hyperbolic(sum), valid, 1, unit & 1);
#elif !BACKWARD
            // Four lanes side by side have the four gates of one unit: input, forget, cell, output.
            const int gate = row % 4, unit_of_block = row / 4;
            const float mine = gate == 2 ? hyperbolic(sum) : sigmoid(sum);
            float c = valid ? cell[local * UNITS + unit_of_block] : 0.0f;
            const float in = __shfl_sync(~0u, mine, 0, 4), forget = __shfl_sync(~0u, mine, 1, 4);
            const float candidate = __shfl_sync(~0u, mine, 2, 4), out = __shfl_sync(~0u, mine, 3, 4);
            c = forget * c + in * candidate;
            publish(state + at * HIDDEN + unit, out * hyperbolic(c), valid && gate == 0, 4, unit & 1);
            __syncwarp();  // all four have read the cell
            if (!valid) continue;
            if (TRAIN) put(inputs + at * 4 * HIDDEN + row_of(row), mine);
            if (gate == 0) {
                cell[local * UNITS + unit_of_block] = c;
                if (TRAIN) cells[at * HIDDEN + unit] = c;
                if (place.step == steps - 1) cell_out[static_cast<long long>(first_sample + local) * HIDDEN + unit] = c;
            }
#elif KIND != 2
            const float y = valid ? needed.values[each][1] : 0.0f;
            publish(state + at * HIDDEN + unit, sum * (KIND == 1 ? (y > 0.0f ? 1.0f : 0.0f) : 1.0f - y * y), valid, 1, unit & 1);
#else
            const float *const v = needed.values[each];
            const float in = valid ? v[1] : 0, forget = valid ? v[2] : 0, candidate = valid ? v[3] : 0, out = valid ? v[4] : 0;
            const float squashed = valid ? tanhf(v[5]) : 0.0f, cell_was = valid ? v[6] : 0.0f;
            const float dc = (valid ? cell[local * UNITS + row] : 0.0f) + sum * out * (1.0f - squashed * squashed);
            const float grads[4] = {dc * candidate * in * (1.0f - in), dc * cell_was * forget * (1.0f - forget),
                                    dc * in * (1.0f - candidate * candidate), sum * squashed * out * (1.0f - out)};
            UNROLL for (int gate = 0; gate < 4; ++gate)
                publish(state + at * COLUMNS + gate * HIDDEN + unit, grads[gate], valid, 1, unit & 1);
            if (!valid) continue;
            cell[local * UNITS + row] = dc * forget;
            if (place.step == steps - 1) cell_out[static_cast<long long>(first_sample + local) * HIDDEN + unit] = dc * forget;
#endif
        }
    };

    State read;
    Needed needed[2];
    Place here{0, 0}, after{0, 0};
    int turn = 0;
    after.next();
    need(needed[0], here);
    const auto work = [&](const Needed &have, Needed &soon) {
        float *const partial = sums + turn * WARPS * SUMS;
        if (IS_HALF) need(soon, after);
        ask(read, here);
        wait(read, here);
        if (!IS_HALF) need(soon, after);
        multiply(read, partial + warp * SUMS);
        __syncthreads();  // the other half of `sums` was read before it, by all
        finish(partial, have, here);
        here = after, after.next(), turn ^= 1;
    };
    while (here.step < steps) {
        work(needed[0], needed[1]);
        if (here.step < steps) work(needed[1], needed[0]);
    }
}
