// A matrix of 16-bit numbers copied to more rows and columns, zeros where there is nothing to copy. Rows of the copy begin
// at 16 bytes, so a thread writes eight numbers at once; rows of the original begin anywhere, so it reads them one by
// one, from lines that its neighbours' reads have brought into L1.
//
// Read next: padding.py, which launches it. By itself, checked and timed: python -m brrr.kernels.padding

extern "C" __global__ void brrr_pad(const unsigned short *in, uint4 *out, long long rows, long long columns,
                                    long long pitch, long long padded_rows, long long vectors) {
    const long long place = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (place >= padded_rows * vectors) return;
    const long long row = place / vectors, first = place % vectors * 8;
    const unsigned short *from = in + row * pitch + first;
    const long long left = row < rows ? columns - first : 0;
    unsigned words[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned low = 2 * k < left ? from[2 * k] : 0, high = 2 * k + 1 < left ? from[2 * k + 1] : 0;
        words[k] = low | high << 16;
    }
    out[place] = make_uint4(words[0], words[1], words[2], words[3]);
}
