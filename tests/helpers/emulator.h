// The GPU of csrc/threads.h on a CPU: blocks one after the other, each thread a fibre, barriers and shuffles real.
//
// A fibre runs until it must wait, then the next one does, in an order drawn anew for every round; half of the warps rest
// for some rounds: kernels that lack a barrier, or that count on warps in step, differ from one seed to the next.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <vector>

using std::exp2;
using std::fma;
using std::fmax;
using std::log;
using std::rint;

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(count)

typedef _Float16 Half;
typedef void* Stream;

struct Bfloat16 {
    uint16_t bits;
    Bfloat16() = default;
    explicit Bfloat16(float x) {  // to the nearest, ties to even
        uint32_t wide;
        memcpy(&wide, &x, 4);
        bits = x == x ? uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16) : 0x7fc0;
    }
    explicit operator float() const {
        const uint32_t wide = uint32_t(bits) << 16;
        float x;
        memcpy(&x, &wide, 4);
        return x;
    }
};

namespace emulator {

constexpr int WARP = 32, BARRIERS = 16, STACK = 1 << 18;

struct Barrier {
    int arrived = 0;
    long passed = 0;
};

struct Fibre {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    Barrier* waits;  // null: ready
    long until;      // ready again when the barrier has been passed so often
};

inline std::mt19937 chance(1);
inline ucontext_t scheduler;
inline std::vector<Fibre> fibres;
inline Barrier barriers[BARRIERS];
inline std::vector<Barrier> warp_barriers;
inline std::vector<char> exchange;  // 16 bytes a thread

struct Fragments {
    Half left[4][2], right[2][2];
};
inline std::vector<Fragments> fragments;  // of each thread

typedef std::vector<std::pair<void*, const void*>> Fetch;  // to, from
inline std::vector<std::deque<Fetch>> fetches;             // of each thread; the last one is not ended
inline int running, block_size;
inline int64_t block_index;
inline std::function<void()> body;

inline void enter() {
    body();
    fibres[running].done = true;
}

inline void wait(Barrier& barrier, int count) {
    Fibre& own = fibres[running];
    if (++barrier.arrived == count) {
        barrier.arrived = 0;
        ++barrier.passed;
        return;
    }
    own.waits = &barrier;
    own.until = barrier.passed + 1;
    swapcontext(&own.context, &scheduler);
}

inline void run_block() {
    for (Barrier& barrier : barriers) barrier = Barrier();
    warp_barriers.assign((block_size + WARP - 1) / WARP, Barrier());
    exchange.assign(block_size * 16, 0);
    fragments.resize(block_size);
    fetches.assign(block_size, {Fetch()});
    fibres.resize(std::max<size_t>(fibres.size(), block_size));
    std::vector<int> order;
    for (int i = 0; i < block_size; ++i) {
        Fibre& fibre = fibres[i];
        fibre.stack.resize(STACK);
        fibre.done = false, fibre.waits = nullptr;
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.data();
        fibre.context.uc_stack.ss_size = STACK;
        fibre.context.uc_link = &scheduler;
        makecontext(&fibre.context, enter, 0);
        order.push_back(i);
    }
    uint32_t resting = 0;  // bit: warp
    int rounds = 0;
    for (int left = block_size; left > 0;) {
        std::shuffle(order.begin(), order.end(), chance);
        if (rounds++ % 16 == 0) resting = chance();
        bool stuck = true;
        for (int i : order) {
            Fibre& fibre = fibres[i];
            if (fibre.done || (fibre.waits && fibre.waits->passed < fibre.until)) continue;
            stuck = false;
            if (resting >> i / WARP & 1) continue;
            fibre.waits = nullptr, running = i;
            swapcontext(&scheduler, &fibre.context);
            left -= fibre.done;
        }
        if (stuck) fprintf(stderr, "emulator: %d threads wait for a barrier that no one will reach\n", left), abort();
    }
}

template <typename T>
T from_lane(T value, int lane) {
    static_assert(sizeof(T) <= 16);
    const int warp = running / WARP, own = running;
    memcpy(&exchange[own * 16], &value, sizeof(T));
    wait(warp_barriers[warp], WARP);
    T other = value;
    if (lane >= 0 && lane < WARP) memcpy(&other, &exchange[(warp * WARP + lane) * 16], sizeof(T));
    wait(warp_barriers[warp], WARP);
    return other;
}

}  // namespace emulator

inline int thread() { return emulator::running; }
inline int threads() { return emulator::block_size; }
inline int64_t block() { return emulator::block_index; }

template <typename T>
T from_below(T value, int distance) {
    return emulator::from_lane(value, thread() % emulator::WARP - distance);
}
template <typename T>
T from_above(T value, int distance) {
    return emulator::from_lane(value, thread() % emulator::WARP + distance);
}
template <typename T>
T from_across(T value, int mask) {
    return emulator::from_lane(value, thread() % emulator::WARP ^ mask);
}
template <typename T>
T from_lane(T value, int lane) {
    return emulator::from_lane(value, lane);
}

// Copies are made when they are waited for, no sooner.
inline void fetch_16_bytes(void* shared, const void* from) {
    emulator::fetches[emulator::running].back().emplace_back(shared, from);
}
inline void end_of_fetch() { emulator::fetches[emulator::running].emplace_back(); }
template <int UNDER_WAY>
void wait_for_fetches() {
    std::deque<emulator::Fetch>& own = emulator::fetches[emulator::running];
    for (; own.size() > UNDER_WAY + 1; own.pop_front()) {
        for (auto [to, from] : own.front()) memcpy(to, from, 16);
    }
}

// The layout is that of mma.m16n8k16 in the manual of PTX.
inline void multiply_add(float (&sum)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
    using namespace emulator;
    const int warp = running / WARP, lane = running % WARP;
    Fragments* const all = &fragments[warp * WARP];
    memcpy(all[lane].left, left, sizeof(left));
    memcpy(all[lane].right, right, sizeof(right));
    wait(warp_barriers[warp], WARP);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            const Half a = all[row % 8 * 4 + k % 8 / 2].left[k / 8 * 2 + row / 8][k % 2];
            const Half b = all[column * 4 + k % 8 / 2].right[k / 8][k % 2];
            sum[i] += float(a) * float(b);
        }
    }
    wait(warp_barriers[warp], WARP);
}

inline float fast_exp2(float x) { return exp2(x); }
inline double fast_exp2(double x) { return exp2(x); }

inline void wait_for_block() { emulator::wait(emulator::barriers[0], emulator::block_size); }
inline void wait_for_group(int barrier, int count) { emulator::wait(emulator::barriers[barrier], count); }

template <typename... Parameters, typename... Values>
void start(void (*kernel)(Parameters...), int64_t blocks, int block_size, Stream, Values... values) {
    emulator::block_size = block_size;
    emulator::body = [=] { kernel(values...); };
    for (emulator::block_index = 0; emulator::block_index < blocks; ++emulator::block_index) emulator::run_block();
}

inline int last_error() { return 0; }

extern "C" void emulator_seed(unsigned seed) { emulator::chance.seed(seed); }
