// What kernels need of the machine: thread numbers, shuffles, barriers, launches.
//
// nvcc compiles this for the GPU. The tests compile the same kernels for the CPU, with tests/emulator.h in its
// place: every thread a fibre, so that all but the speed can be tested where there is no GPU.
#pragma once

#ifndef __CUDACC__
#include "emulator.h"
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __half Half;
typedef __nv_bfloat16 Bfloat16;
typedef cudaStream_t Stream;

constexpr unsigned EVERY_LANE = 0xffffffffu;

__device__ __forceinline__ int thread() { return threadIdx.x; }
__device__ __forceinline__ int threads() { return blockDim.x; }
__device__ __forceinline__ int64_t block() { return blockIdx.x; }

// The value of the lane `distance` below or above, or in the lane whose number differs in the bits of `mask`.
template <typename T>
__device__ __forceinline__ T from_below(T value, int distance) {
    return __shfl_up_sync(EVERY_LANE, value, distance);
}
template <typename T>
__device__ __forceinline__ T from_above(T value, int distance) {
    return __shfl_down_sync(EVERY_LANE, value, distance);
}
template <typename T>
__device__ __forceinline__ T from_across(T value, int mask) {
    return __shfl_xor_sync(EVERY_LANE, value, mask);
}
template <typename T>
__device__ __forceinline__ T from_lane(T value, int lane) {
    return __shfl_sync(EVERY_LANE, value, lane);
}

// 2^x to 2^-22 in one instruction; results below 2^-126 are 0.
__device__ __forceinline__ float fast_exp2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ __forceinline__ double fast_exp2(double x) { return exp2(x); }

// Tensor cores: sum (16 x 8) += left (16 x 16) right (16 x 8), of a whole warp. Lane 4 r + q holds of `left` rows r and
// r + 8 in turn, columns 2 q and 2 q + 1, then 2 q + 8 and 2 q + 9; of `right` column r, the same rows; of `sum` rows r
// and r + 8, columns 2 q and 2 q + 1.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// 16 bytes from global to shared memory, asynchronously; all up to an end_of_fetch is one fetch.
__device__ __forceinline__ void fetch_16_bytes(void* shared, const void* from) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_of_fetch() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all of the thread's own fetches have arrived but the last `UNDER_WAY`.
template <int UNDER_WAY>
__device__ __forceinline__ void wait_for_fetches() {
    asm volatile("cp.async.wait_group %0;" ::"n"(UNDER_WAY) : "memory");
}

__device__ __forceinline__ void wait_for_block() { __syncthreads(); }

// Waits for the `count` threads that name the same `barrier`, 1 to 15.
__device__ __forceinline__ void wait_for_group(int barrier, int count) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

template <typename... Parameters, typename... Values>
void start(void (*kernel)(Parameters...), int64_t blocks, int block_size, cudaStream_t stream, Values... values) {
    if (blocks > 0) kernel<<<static_cast<unsigned>(blocks), block_size, 0, stream>>>(values...);
}

inline int last_error() { return cudaGetLastError(); }

#endif
