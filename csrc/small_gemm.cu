// Half-precision product of a matrix with a few columns: a dense or recurrent layer for a batch of 1 to 16 streams
// (Deep Speech 2, section 7.2). Bound by reading the weights, so all is arranged for that:
//
//     Y (N, M) = X (N, K) W (M, K)^T + bias        weights lie row by row
//
//     block   16 rows, all N columns     warp 0 |K 0..31|        |        | ...
//             8 warps share K            warp 1 |       |K 32..63|        | ...
//
// Every weight is read once, 16 bytes a lane. Tensor cores multiply, 16 rows with 8 columns at a time, and add up in
// float32: a column more costs next to nothing. They want each lane to hold certain four columns of K. As a sum over K
// may take them in any order, the eight that a lane has read side by side stand for those that it should have:
//
//     lane 4 r + q holds W[r, 8 q .. 8 q + 7], W[r + 8, the same] and X[r, the same]: two products of 16 columns of K
//
// Warps add up through shared memory, in one order: the same bits every time. From compute capability 8.0 on.
#include <stdint.h>

#include "threads.h"

namespace small_gemm {

constexpr int ROWS = 16, WARPS = 8, LANES = 32, MOST_COLUMNS = 16;
constexpr int TILE = 8;    // columns that the tensor cores take at once
constexpr int VECTOR = 8;  // halves in 16 bytes
constexpr int STEP = 32;   // of K, that a warp takes at once
constexpr int AHEAD = 5;   // steps whose weights are on their way: with three blocks an SM some 120 KB

struct alignas(16) Vector {
    uint32_t pairs[VECTOR / 2];
};

// What the caller hands over. Pointers are to memory of the GPU, 16-byte aligned; K is a multiple of 8.
struct Arguments {
    const Half* weight;  // (M, K)
    const Half* x;       // (N, K)
    const float* bias;   // (M,), or null
    float* y;            // (N, M)
    int64_t rows, inner, columns;
};

template <int TILES>
__global__ void __launch_bounds__(WARPS* LANES) multiply(Arguments a) {
    __shared__ Vector staged[WARPS][AHEAD][2][LANES];  // each lane reads what it has fetched itself
    __shared__ float sums[WARPS][TILES * TILE][ROWS];
    const int lane = thread() % LANES, warp = thread() / LANES, own = lane / 4, quarter = lane % 4;
    const int64_t first = block() * ROWS;
    auto row = [&](int64_t number) {  // beyond the last row the last one is read again and not used
        return a.weight + (number < a.rows ? number : a.rows - 1) * a.inner;
    };
    const Half *const upper = row(first + own), *const lower = row(first + own + ROWS / 2);
    const int steps = int((a.inner + (WARPS - warp) * STEP - 1) / (WARPS * STEP));
    auto place_in_k = [&](int step) { return int64_t(step * WARPS + warp) * STEP + quarter * VECTOR; };
    auto fetch = [&](int step) {
        const int64_t k = place_in_k(step), inside = k < a.inner ? k : 0;  // times a zero beyond the end of K
        Vector(&stage)[2][LANES] = staged[warp][step % AHEAD];
        if (step < steps) fetch_16_bytes(&stage[0][lane], upper + inside), fetch_16_bytes(&stage[1][lane], lower + inside);
        end_of_fetch();
    };
    auto read_x = [&](int step, int tile) {
        const int64_t k = place_in_k(step);
        const int column = tile * TILE + own;
        const bool there = k < a.inner && column < a.columns;
        return there ? *reinterpret_cast<const Vector*>(a.x + column * a.inner + k) : Vector{};
    };
    for (int step = 0; step < AHEAD; ++step) fetch(step);
    float sum[TILES][4] = {};
    Vector x[TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) x[tile] = read_x(0, tile);
    for (int step = 0; step < steps; ++step) {
        wait_for_fetches<AHEAD - 1>();
        const Vector up = staged[warp][step % AHEAD][0][lane], low = staged[warp][step % AHEAD][1][lane];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const Vector held = x[tile];
            x[tile] = read_x(step + 1, tile);
#pragma unroll
            for (int p = 0; p < VECTOR / 2; p += 2) {
                multiply_add(sum[tile], {up.pairs[p], low.pairs[p], up.pairs[p + 1], low.pairs[p + 1]},
                             {held.pairs[p], held.pairs[p + 1]});
            }
        }
        fetch(step + AHEAD);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[warp][tile * TILE + quarter * 2 + i % 2][own + i / 2 * (ROWS / 2)] = sum[tile][i];
        }
    wait_for_block();
    for (int place = thread(); place < ROWS * a.columns; place += WARPS * LANES) {
        const int column = place / ROWS, of_block = place % ROWS;
        const int64_t row = first + of_block;
        if (row >= a.rows) continue;
        float total = a.bias ? a.bias[row] : 0.0f;
#pragma unroll
        for (int part = 0; part < WARPS; ++part) total += sums[part][column][of_block];
        a.y[column * a.rows + row] = total;
    }
}

}  // namespace small_gemm

// Columns that one product may have at most.
extern "C" int64_t ds2_small_gemm_columns() { return small_gemm::MOST_COLUMNS; }

// Enqueues the product on the stream and returns; 0, or the number of a CUDA error.
extern "C" int ds2_small_gemm(const small_gemm::Arguments* a, void* stream_pointer) {
    using namespace small_gemm;
    const Stream stream = static_cast<Stream>(stream_pointer);
    const int64_t blocks = (a->rows + ROWS - 1) / ROWS;
    if (a->columns <= TILE) start(multiply<1>, blocks, WARPS * LANES, stream, *a);
    else start(multiply<2>, blocks, WARPS * LANES, stream, *a);
    return last_error();
}
