// ReLU with 16 bytes a thread, as torch does it. The CPU's version, which the tests compare with:
//
//     for (long long i = 0; i < count; ++i) out[i] = in[i] < 0 ? 0 : in[i];
//
// Written so, a NaN stays a NaN, as in torch; `in[i] > 0 ? in[i] : 0` would turn it into 0 and hide a mistake.
//
// Read next: relu.py, which launches it. By itself, checked and timed: python -m brrr.kernels.relu

__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

// Four elements a thread, read and written as one 16-byte word; what is left over at the end goes one by one. `in` and
// `out` may be the same memory; both must be multiples of 16 bytes, as every tensor that torch allocates is.
extern "C" __global__ void brrr_relu4(const float *in, float *out, long long count) {
    const long long i = 4 * (blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x);
    if (i + 4 <= count) {
        const float4 x = *reinterpret_cast<const float4 *>(in + i);
        *reinterpret_cast<float4 *>(out + i) = make_float4(relu(x.x), relu(x.y), relu(x.z), relu(x.w));
        return;
    }
    for (long long k = i; k < count; ++k) out[k] = relu(in[k]);
}
