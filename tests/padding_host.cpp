// padding.cu on a CPU, one thread after the other.
#include "cuda_words.cuh"

#include SOURCE

extern "C" void run_pad(const unsigned short *in, uint4 *out, long long rows, long long columns, long long pitch,
                        long long padded_rows, long long vectors, unsigned blocks, unsigned threads) {
    in_turn({blocks, 1, 1}, threads, [=] { brrr_pad(in, out, rows, columns, pitch, padded_rows, vectors); });
}
