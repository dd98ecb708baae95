// The second kernel of ctc.cu: one warp or block a row. The softmax of each frame, into the gradient, and the
// probabilities of the blank and the labels, into the records.
#pragma once

#include "ctc_workspace.h"

namespace ctc {

constexpr int ROW_WARP = LANES;  // threads that share a row of few outputs
constexpr int WIDE = 1024;       // outputs from which on a row takes a block

constexpr int BUNDLE = 16;       // bytes

// Scores that are read or written at once: one where rows do not begin at multiples of a bundle's bytes.
template <typename Score, int WIDTH>
struct alignas(sizeof(Score) * WIDTH) Bundle {
    Score scores[WIDTH];
};

template <typename Real>
struct Softmax {  // of what has been read so far: sum is in units of exp(highest)
    Real highest, sum;
};

// exp(score - highest); 0 where the highest is -inf, as all scores are then.
template <typename Real>
__device__ Real exponential(Real score, Real highest) {
    return fast_exp2((score - (highest > -INFINITY ? highest : Real(0))) * Real(LOG2_E));
}

// The sum in units of exp(highest), which is at least as high as its own. 0 where all are -inf, NaN where one is NaN.
template <typename Real>
__device__ Real in_units_of(Real highest, Softmax<Real> softmax) {
    return softmax.sum * exponential(softmax.highest, highest);
}

template <typename Real, typename Score, int WIDTH>
__device__ Softmax<Real> with(Softmax<Real> softmax, Bundle<Score, WIDTH> bundle) {
    Real highest = softmax.highest;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        highest = fmax(highest, Real(bundle.scores[i]));  // ignores NaN, but the sum becomes NaN
    }
    Real sum = in_units_of(highest, softmax);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) sum += exponential(Real(bundle.scores[i]), highest);
    return {highest, sum};
}

template <typename Real, int SHARING>
__device__ Softmax<Real> joined_over_row(Softmax<Real> own) {
    constexpr int WARPS = SHARING / LANES;
    __shared__ Real parts[2][WARPS];
    Real highest = own.highest;
    for (int mask = LANES / 2; mask > 0; mask /= 2) {
        highest = fmax(highest, from_across(highest, mask));
    }
    if (WARPS > 1) {
        parts[0][thread() / LANES % WARPS] = highest;
        wait_for_block();
        for (int warp = 0; warp < WARPS; ++warp) highest = fmax(highest, parts[0][warp]);
    }
    Real sum = in_units_of(highest, own);
    for (int mask = LANES / 2; mask > 0; mask /= 2) sum += from_across(sum, mask);
    if (WARPS > 1) {
        parts[1][thread() / LANES % WARPS] = sum;
        wait_for_block();
        sum = 0;
        for (int warp = 0; warp < WARPS; ++warp) sum += parts[1][warp];
    }
    return {highest, sum};
}

// The probability of a score as a scaled number, with a relative error of some 2^-22 however small it is: the rounding
// of score - highest is compensated.
template <typename Real>
__device__ Scaled<Real> probability(Real score, Real highest, Real inverse_sum) {
    const Real high = score - highest, gone = high - score, low = (score - (high - gone)) - (highest + gone);
    const Scaled<Real> x = scaled_exponential(high, low);
    return normalised(Scaled<Real>{x.m * inverse_sum, x.e});
}

// What columns and labels need of a frame. With `few` outputs each lane computes one and passes it to all equal labels.
template <typename Real, typename Score, int SHARING>
__device__ void leave_probabilities(const Arguments& a, const Workspace<Real>& w, int b, int t, const Score* scores,
                                    Real highest, Real inverse_sum) {
    const int own = thread() % SHARING, lane = own % LANES, labels = int(a.target_lengths[b]), P = 1 << w.power;
    const int64_t* const targets = a.targets + w.offsets[b];
    const bool few = a.outputs <= LANES;
    auto look_up = [&](int v) { return probability(Real(scores[v]), highest, inverse_sum); };
    const Scaled<Real> held = few ? look_up(lane < a.outputs ? lane : 0) : zero<Real>();
    auto of = [&](int v) { return few ? Scaled<Real>{from_lane(held.m, v), from_lane(held.e, v)} : look_up(v); };
    const Scaled<Real> blank = of(int(a.blank));
    for (int group = own / LANES; group < w.warps * P; group += SHARING / LANES) {  // 32 slots each
        const int warp = group >> w.power, p = group & (P - 1), pair = (warp * LANES + lane) * P + p;
        const Scaled<Real> label = of(int(pair < labels ? targets[pair] : a.blank));
        Scaled<Real>* const record = record_of(w, a, b, warp, t);
        record[p * LANES + lane] = pair < labels ? label : zero<Real>();
        if (p == 0 && lane == 0) record[2 * LANES * P] = blank;
    }
}

template <typename Real, typename Score, int SHARING, int WIDTH>
__global__ void rows(Arguments a, Workspace<Real> w) {
    typedef Bundle<Score, WIDTH> Row;
    const int row = int(block()) * (ROW_BLOCK / SHARING) + thread() / SHARING, frames = int(a.frames);
    const int b = row / frames, t = row % frames, own = thread() % SHARING, bundles = int(a.outputs / WIDTH);
    if (b >= a.batch) return;
    const int64_t at = b * a.batch_stride + t * a.frame_stride;
    const Score* const scores = static_cast<const Score*>(a.logits) + at;
    const Row* const bundled = reinterpret_cast<const Row*>(scores);
    Row* const gradient = a.gradient ? reinterpret_cast<Row*>(static_cast<Score*>(a.gradient) + at) : nullptr;
    const int32_t status = w.status[b];
    if (status != SOUND || t >= a.input_lengths[b]) {
        Row fill;
        for (int i = 0; i < WIDTH; ++i) fill.scores[i] = Score(status == WRONG ? float(NAN) : 0.0f);
        for (int v = own; gradient && v < bundles; v += SHARING) gradient[v] = fill;
        return;
    }
    Softmax<Real> softmax{Real(-INFINITY), Real(0)};
    for (int v = own; v < bundles; v += SHARING) softmax = with(softmax, bundled[v]);
    softmax = joined_over_row<Real, SHARING>(softmax);
    const bool sound = softmax.highest > -INFINITY && softmax.sum < INFINITY;
    const Real inverse_sum = Real(1) / softmax.sum;
    const Real factor = sound ? static_cast<const Real*>(a.weights)[b] * inverse_sum : Real(NAN);
    for (int v = own; gradient && v < bundles; v += SHARING) {
        const Row held = bundled[v];
        Row slope;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            slope.scores[i] = Score(factor * exponential(Real(held.scores[i]), softmax.highest));
        }
        gradient[v] = slope;
    }
    leave_probabilities<Real, Score, SHARING>(a, w, b, t, scores, softmax.highest, inverse_sum);
    if (own == 0 && !sound) w.unsound[b] = 1;  // all rows write the same value
}

}  // namespace ctc
