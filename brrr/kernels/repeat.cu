// y = x * factor again and again, or y = x * factor + addend: one load, `repeat` steps in registers, one store. On a CPU
// that would be:
//
//     for (long long i = 0; i < count; ++i) {
//         float y = in[i];
//         for (int r = 0; r < repeat; ++r) y = y * factor;      // or fmaf(y, factor, addend)
//         out[i] = y;
//     }
//
// Factor and addend come at run time and each step names its rounding (__fmul_rn, __fmaf_rn), so the compiler can
// neither fold two steps into one, nor fuse a multiplication with anything, nor drop a step.
//
// Each thread loads 16 bytes twice: with 2048 threads a multiprocessor, 64 KB are asked for at once, which is more than
// the memory needs (see peaks.cu). Those 8 numbers (16 of a half type) are also independent chains, so that
// the arithmetic units need not wait for the result before. Half types are widened to float32 and rounded once, at the
// end, as a fusing compiler does. Both pointers must be multiples of 16 bytes; `in` and `out` may be the same memory.
//
// Read next: repeat.py, which launches it. By itself, checked and timed: python -m brrr.kernels.repeat

#define UNROLL _Pragma("unroll")
constexpr int WORDS = 2;
constexpr int ROUND = 16;

struct Float32 {
    using Element = float;
    static constexpr int PER_WORD = 4;
    static __device__ __forceinline__ float widen(float x) { return x; }
    static __device__ __forceinline__ float narrow(float x) { return x; }
    static __device__ __forceinline__ void unpack(uint4 word, float *x) {
        x[0] = __uint_as_float(word.x), x[1] = __uint_as_float(word.y);
        x[2] = __uint_as_float(word.z), x[3] = __uint_as_float(word.w);
    }
    static __device__ __forceinline__ uint4 pack(const float *x) {
        return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
    }
};

// What both 16-bit types share: eight numbers a word, two in each of its four parts, the lower half first.
template <class Type>
struct Packed {
    using Element = unsigned short;
    static constexpr int PER_WORD = 8;
    static __device__ __forceinline__ void unpack(uint4 word, float *x) {
        const unsigned parts[4] = {word.x, word.y, word.z, word.w};
        UNROLL for (int k = 0; k < 4; ++k) {
            x[2 * k] = Type::widen(static_cast<unsigned short>(parts[k]));
            x[2 * k + 1] = Type::widen(static_cast<unsigned short>(parts[k] >> 16));
        }
    }
    static __device__ __forceinline__ unsigned pair(const float *x) {
        return Type::narrow(x[0]) | static_cast<unsigned>(Type::narrow(x[1])) << 16;
    }
    static __device__ __forceinline__ uint4 pack(const float *x) {
        return make_uint4(pair(x), pair(x + 2), pair(x + 4), pair(x + 6));
    }
};

struct Float16 : Packed<Float16> {
    static __device__ __forceinline__ float widen(unsigned short bits) {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }
    static __device__ __forceinline__ unsigned short narrow(float x) {
        unsigned short bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
    }
};

// bfloat16 is the upper half of a float32, rounded to the nearest, to even where two are as near.
struct Bfloat16 : Packed<Bfloat16> {
    static __device__ __forceinline__ float widen(unsigned short bits) {
        return __uint_as_float(static_cast<unsigned>(bits) << 16);
    }
    static __device__ __forceinline__ unsigned short narrow(float x) {
#if __CUDA_ARCH__ >= 800
        unsigned short bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
#else
        const unsigned word = __float_as_uint(x);
        if (x != x) return 0x7fff;
        return static_cast<unsigned short>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
#endif
    }
};

template <int N, class Step>
__device__ __forceinline__ void repeated(float (&x)[N], int repeat, Step step) {
#pragma unroll 1
    for (; repeat >= ROUND; repeat -= ROUND) {
        UNROLL for (int s = 0; s < ROUND; ++s) {
            UNROLL for (int n = 0; n < N; ++n) x[n] = step(x[n]);
        }
    }
#pragma unroll 1
    for (; repeat > 0; --repeat) {
        UNROLL for (int n = 0; n < N; ++n) x[n] = step(x[n]);
    }
}

// The last elements, which fill no word of 16 bytes, one by one.
template <class Type, class Step>
__device__ __forceinline__ void remainder(const void *in, void *out, long long first, long long count, int repeat,
                                          Step step) {
    const auto *from = static_cast<const typename Type::Element *>(in);
    auto *to = static_cast<typename Type::Element *>(out);
    for (long long i = first; i < count; ++i) {
        float x[1] = {Type::widen(from[i])};
        repeated(x, repeat, step);
        to[i] = Type::narrow(x[0]);
    }
}

template <class Type, class Step>
__device__ __forceinline__ void chain(const void *in, void *out, long long count, int repeat, Step step) {
    constexpr int EACH = Type::PER_WORD;
    const auto *from = static_cast<const uint4 *>(in);
    auto *to = static_cast<uint4 *>(out);
    const long long whole = count / EACH;
    const long long first = blockIdx.x * static_cast<long long>(WORDS * blockDim.x) + threadIdx.x;
    if (first + (WORDS - 1) * static_cast<long long>(blockDim.x) < whole) {
        uint4 words[WORDS];
        float x[WORDS * EACH];
        UNROLL for (int k = 0; k < WORDS; ++k) words[k] = from[first + k * static_cast<long long>(blockDim.x)];
        UNROLL for (int k = 0; k < WORDS; ++k) Type::unpack(words[k], x + k * EACH);
        repeated(x, repeat, step);
        UNROLL for (int k = 0; k < WORDS; ++k) to[first + k * static_cast<long long>(blockDim.x)] = Type::pack(x + k * EACH);
        return;
    }
#pragma unroll 1
    for (int k = 0; k < WORDS; ++k) {
        const long long place = first + k * static_cast<long long>(blockDim.x);
        if (place < whole) {
            float x[EACH];
            Type::unpack(from[place], x);
            repeated(x, repeat, step);
            to[place] = Type::pack(x);
        } else if (place == whole) {
            remainder<Type>(in, out, whole * EACH, count, repeat, step);
        }
    }
}

template <class Type>
__device__ __forceinline__ void multiplied(const void *in, void *out, long long count, int repeat, float factor) {
    chain<Type>(in, out, count, repeat, [=](float x) { return __fmul_rn(x, factor); });
}

template <class Type>
__device__ __forceinline__ void affine(const void *in, void *out, long long count, int repeat, float factor,
                                       float addend) {
    chain<Type>(in, out, count, repeat, [=](float x) { return __fmaf_rn(x, factor, addend); });
}

// A multiplication alone: 1 FLOP in the instruction that could do 2. The addend is not used.
extern "C" __global__ void brrr_repeat_mul_float32(const void *in, void *out, long long count,
                                                   int repeat, float factor, float) {
    multiplied<Float32>(in, out, count, repeat, factor);
}
extern "C" __global__ void brrr_repeat_mul_float16(const void *in, void *out, long long count,
                                                   int repeat, float factor, float) {
    multiplied<Float16>(in, out, count, repeat, factor);
}
extern "C" __global__ void brrr_repeat_mul_bfloat16(const void *in, void *out, long long count,
                                                    int repeat, float factor, float) {
    multiplied<Bfloat16>(in, out, count, repeat, factor);
}

// A multiplication and an addition in one instruction, with one rounding: 2 FLOP.
extern "C" __global__ void brrr_repeat_fma_float32(const void *in, void *out, long long count,
                                                   int repeat, float factor, float addend) {
    affine<Float32>(in, out, count, repeat, factor, addend);
}
extern "C" __global__ void brrr_repeat_fma_float16(const void *in, void *out, long long count,
                                                   int repeat, float factor, float addend) {
    affine<Float16>(in, out, count, repeat, factor, addend);
}
extern "C" __global__ void brrr_repeat_fma_bfloat16(const void *in, void *out, long long count,
                                                    int repeat, float factor, float addend) {
    affine<Bfloat16>(in, out, count, repeat, factor, addend);
}
