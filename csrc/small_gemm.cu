// Half-precision product of a matrix with a few columns: a dense or recurrent layer for a batch of 1 to 16 streams
// (Deep Speech 2, section 7.2). Bound by reading the weights, so all is arranged for that:
//
//     Y (N, M) = X (N, K) W (M, K)^T + bias        weights lie row by row: what a lane loads lies side by side
//
//     block   4 rows, all N columns      warp 0 |K 0..255|        |        |K 1024..|
//             4 warps share K            warp 1 |        |K 256.. |        |
//                                        ...    each lane 8 weights of each row at a time: 16 bytes, 4 loads in flight
//
// Every weight is read once, by one lane, and multiplied with all N columns; sums are in float32. Lanes add up by shuffles
// and warps through shared memory, in one order: the same bits every time.
#include <stdint.h>

#include "threads.h"

namespace small_gemm {

constexpr int ROWS = 4, WARPS = 4, LANES = 32, MOST_COLUMNS = 16;
constexpr int VECTOR = 8;  // halves in 16 bytes

struct alignas(16) Vector {
    uint32_t words[VECTOR / 2];
};

// What the caller hands over. Pointers are to memory of the GPU, 16-byte aligned; K is a multiple of 8.
struct Arguments {
    const Half* weight;  // (M, K)
    const Half* x;       // (N, K)
    const float* bias;   // (M,), or null
    void* y;             // (N, M) of float32, or of half
    int64_t rows, inner, columns;
    int32_t half_result;
};

__device__ __forceinline__ void unpack(const Vector& vector, float* values) {
    const Half* halves = reinterpret_cast<const Half*>(&vector);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) values[i] = static_cast<float>(halves[i]);
}

template <int N>
__global__ void __launch_bounds__(WARPS* LANES) multiply(Arguments a) {
    __shared__ float sums[WARPS][ROWS][N];
    const int lane = thread() % LANES, warp = thread() / LANES;
    const int64_t first = block() * ROWS;
    const Half* weight[ROWS];
    for (int row = 0; row < ROWS; ++row) {  // behind the last row the last is read again and thrown away
        const int64_t own = first + row < a.rows ? first + row : a.rows - 1;
        weight[row] = a.weight + own * a.inner;
    }
    float sum[ROWS][N] = {};
    for (int64_t k = (warp * LANES + lane) * VECTOR; k < a.inner; k += WARPS * LANES * VECTOR) {
        Vector loaded[ROWS];
#pragma unroll
        for (int row = 0; row < ROWS; ++row) loaded[row] = *reinterpret_cast<const Vector*>(weight[row] + k);
        float w[ROWS][VECTOR];
#pragma unroll
        for (int row = 0; row < ROWS; ++row) unpack(loaded[row], w[row]);
#pragma unroll
        for (int column = 0; column < N; ++column) {
            const Vector held = *reinterpret_cast<const Vector*>(a.x + column * a.inner + k);
            float x[VECTOR];
            unpack(held, x);
#pragma unroll
            for (int row = 0; row < ROWS; ++row)
#pragma unroll
                for (int i = 0; i < VECTOR; ++i) sum[row][column] += w[row][i] * x[i];
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
#pragma unroll
        for (int column = 0; column < N; ++column) {
            float total = sum[row][column];
            for (int mask = LANES / 2; mask > 0; mask /= 2) total += from_across(total, mask);
            if (lane == 0) sums[warp][row][column] = total;
        }
    wait_for_block();
    for (int place = thread(); place < ROWS * N; place += WARPS * LANES) {
        const int row = place / N, column = place % N;
        if (first + row >= a.rows) continue;
        float total = a.bias ? a.bias[first + row] : 0.0f;
        for (int part = 0; part < WARPS; ++part) total += sums[part][row][column];
        const int64_t target = column * a.rows + first + row;
        if (a.half_result) static_cast<Half*>(a.y)[target] = static_cast<Half>(total);
        else static_cast<float*>(a.y)[target] = total;
    }
}

template <int N>
void run(const Arguments& a, Stream stream) {
    if constexpr (N > 0) {
        if (a.columns == N) start(multiply<N>, (a.rows + ROWS - 1) / ROWS, WARPS * LANES, stream, a);
        else run<N - 1>(a, stream);
    }
}

}  // namespace small_gemm

// Columns that one product may have at most.
extern "C" int64_t ds2_small_gemm_columns() { return small_gemm::MOST_COLUMNS; }

// Enqueues the product on the stream and returns; 0, or the number of a CUDA error.
extern "C" int ds2_small_gemm(const small_gemm::Arguments* arguments, void* stream) {
    small_gemm::run<small_gemm::MOST_COLUMNS>(*arguments, static_cast<Stream>(stream));
    return last_error();
}
