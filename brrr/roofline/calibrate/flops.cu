// Kernels that compute and touch memory only at their end: what the arithmetic units can do.
// Each thread advances eight independent chains x = step(x), so that a unit never waits for the result before. The
// factor and the addend are given at run time and each step is a function that names its rounding, so the compiler
// can neither fold nor fuse nor drop a step; the chains' ends are written out and compared with the recurrence's
// solution.

constexpr int CHAINS = 8;
constexpr int STEPS_A_ROUND = 32;

// Where the n-th chain begins: between 0.5 and 1, without rounding in any of the types.
template <class Number>
__device__ __forceinline__ Number start(unsigned n) {
    return Number(0.5) + static_cast<Number>(n % 1024) / Number(2048);
}

template <class Number, class Step>
__device__ __forceinline__ void advance(Number *ends, int rounds, Step step) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    Number x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = start<Number>(thread + c * threads);
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int s = 0; s < STEPS_A_ROUND; ++s) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = step(x[c]);
        }
    }
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) ends[thread + c * threads] = x[c];
}

// A multiplication and an addition in one instruction: 2 FLOP.
extern "C" __global__ void brrr_fp32_fma(float *ends, float factor, float addend, int rounds) {
    advance(ends, rounds, [=](float x) { return __fmaf_rn(x, factor, addend); });
}

// The same two operations as two instructions, each with its own rounding.
extern "C" __global__ void brrr_fp32_mul_add(float *ends, float factor, float addend, int rounds) {
    advance(ends, rounds, [=](float x) { return __fadd_rn(__fmul_rn(x, factor), addend); });
}

// A multiplication alone: 1 FLOP in the instruction that could have done 2.
extern "C" __global__ void brrr_fp32_mul(float *ends, float factor, float, int rounds) {
    advance(ends, rounds, [=](float x) { return __fmul_rn(x, factor); });
}

extern "C" __global__ void brrr_fp64_fma(double *ends, float factor, float addend, int rounds) {
    const double a = factor, b = addend;
    advance(ends, rounds, [=](double x) { return __fma_rn(x, a, b); });
}

extern "C" __global__ void brrr_fp64_mul(double *ends, float factor, float, int rounds) {
    const double a = factor;
    advance(ends, rounds, [=](double x) { return __dmul_rn(x, a); });
}
