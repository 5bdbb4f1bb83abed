// CUDA's words on a CPU, for the emulations beside this file: just enough for a kernel's own source to compile as C++.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define ON_HOST
#define __device__
#define __global__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
using std::max;
using std::min;

struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, blockDim, gridDim;
struct alignas(8) float2 { float x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class To, class From> static inline To bits_as(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
static inline float __int_as_float(int bits) { return bits_as<float>(bits); }
static inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
// The compiler's own conversions round to nearest, ties to even, as the GPU does.
static inline uint16_t half_of(float x) { return bits_as<uint16_t>(static_cast<_Float16>(x)); }
static inline float float_of(uint16_t x) { return static_cast<float>(bits_as<_Float16>(x)); }

// A launch of a kernel whose threads do not wait for each other: one after the other.
template <class Kernel> static void in_turn(Index grid, unsigned threads, Kernel kernel) {
    gridDim = grid, blockDim = {threads, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel();
}
