// bias_relu.cu on a CPU, one thread after the other.
#include "cuda_words.cuh"

#include SOURCE

#define RUN(NAME, T)                                                                                              \
    extern "C" void run_##NAME(T *y, const T *b, long long rows, int width, int words, unsigned columns_of_blocks, \
                               unsigned rows_of_blocks, unsigned threads) {                                       \
        in_turn({columns_of_blocks, rows_of_blocks, 1}, threads, [=] { brrr_##NAME(y, b, rows, width, words); }); \
    }

RUN(bias_float32, float)
RUN(relu_float32, float)
RUN(bias_relu_float32, float)
RUN(bias_bfloat16, bf16)
RUN(relu_bfloat16, bf16)
RUN(bias_relu_bfloat16, bf16)
