// One step of a recurrent layer behind its two products: everything elementwise in one kernel, a thread for each value
// of the state. On a CPU, for an LSTM:
//
//     for each sample and unit:
//         i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (gates of the input + gates of the state)
//         c = f * c + i * g;   h = o * tanh(c)
//
// As torch does it: that is twelve kernels, each of which reads and writes memory.
// KIND 0: tanh, 1: a GRU, 2: an LSTM; TYPE 0: float, 1: half: given by the compiler's -D.
//
// Read next: recurrent.py, which launches it. By itself, checked and timed: python -m brrr.networks.recurrent
#if TYPE == 0
typedef float Element;
__device__ __forceinline__ float number(Element value) { return value; }
__device__ __forceinline__ Element element(float value) { return value; }
#else
typedef unsigned short Element;
__device__ __forceinline__ float number(Element bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ Element element(float value) {
    Element bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// of_input, of_state: (batch, gates * hidden); before, after: (batch, hidden), the state; cell: (batch, hidden).
extern "C" __global__ void brrr_recurrent_cell(const Element *of_input, const Element *of_state, const Element *before,
                                               Element *after, Element *cell, int batch, int hidden) {
    const long long index = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (index >= static_cast<long long>(batch) * hidden) return;
    constexpr int GATES = KIND == 0 ? 1 : KIND == 1 ? 3 : 4;
    const long long row = index / hidden * hidden * GATES + index % hidden;
    const auto x = [&](int gate) { return number(of_input[row + gate * hidden]); };
    const auto h = [&](int gate) { return number(of_state[row + gate * hidden]); };
    if (KIND == 0) {
        after[index] = element(tanhf(x(0) + h(0)));
    } else if (KIND == 1) {
        const float reset = sigmoid(x(0) + h(0)), keep = sigmoid(x(1) + h(1)), candidate = tanhf(x(2) + reset * h(2));
        after[index] = element(candidate + keep * (number(before[index]) - candidate));
    } else {
        const float in = sigmoid(x(0) + h(0)), forget = sigmoid(x(1) + h(1)), out = sigmoid(x(3) + h(3));
        const float c = forget * number(cell[index]) + in * tanhf(x(2) + h(2));
        cell[index] = element(c);
        after[index] = element(out * tanhf(c));
    }
}
