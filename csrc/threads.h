// What a kernel asks of its machine: who am I, hand a value along, wait for one another, start.
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
