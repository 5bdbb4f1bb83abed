// A float16's 16 bits and its number, and numbers times powers of two. A test that emulates a kernel has its own float16.
#define INLINE __device__ __forceinline__
#define UNROLL _Pragma("unroll")

#ifndef ON_HOST
INLINE unsigned short half_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
INLINE float float_of(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
#endif

// 2^e in two factors, since by itself it may be out of float32's range.
struct Scale {
    float first, second;
    INLINE explicit Scale(int e) {
        e = max(-252, min(e, 252));
        const int half = e >> 1;
        first = __int_as_float((half + 127) << 23), second = __int_as_float((e - half + 127) << 23);
    }
    INLINE float of(float x) const { return x * first * second; }
};
