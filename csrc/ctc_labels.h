// The last kernels of ctc.cu. `labels`, one warp a row: the gradient of the blank and the labels is softmax - sum of
// posteriors. `rescale`, of the backward pass: the gradient gets other factors.
#pragma once

#include "ctc_workspace.h"

namespace ctc {

template <typename Real>
__device__ Real value(Scaled<Real> x) {
    return x.m * power_of_two<Real>(x.e + Format<Real>::BIAS);
}

template <typename Real, typename Score>
__global__ void labels(Arguments a, Workspace<Real> w) {
    const int row = int(block()) * (ROW_BLOCK / LANES) + thread() / LANES, frames = int(a.frames);
    const int b = row / frames, t = row % frames, lane = thread() % LANES;
    if (b >= a.batch) return;
    const Real loss = static_cast<const Real*>(a.losses)[b], weight = static_cast<const Real*>(a.weights)[b];
    if (w.status[b] != SOUND || loss != loss || t >= a.input_lengths[b]) return;  // `rows` has written the final value
    Score* const gradient = static_cast<Score*>(a.gradient) + b * a.batch_stride + t * a.frame_stride;
    if (loss == INFINITY) {  // labels of probability 0
        for (int64_t v = lane; v < a.outputs; v += LANES) gradient[v] = Score(0.0f);
        return;
    }
    const int64_t* const keys = w.keys + b * w.sorted;
    const int32_t* const heads = w.heads + b * (a.most_labels + 1);
    const int slots = LANES << w.power;
    auto own = [&](int i) {
        const int pair = position_of(keys[i]);
        return record_of(w, a, b, warp_of_pair(pair, w.power), t) + slot_of_pair(pair, w.power);
    };
    Real all = 0;
    for (int i = lane; i < w.distinct[b]; i += LANES) {
        const int head = heads[i], end = heads[i + 1];
        Real posterior = 0;
        for (int k = head; k < end; ++k) posterior += own(k)[slots].m;
        gradient[label_of(keys[head])] = Score(weight * (value(*own(head)) - posterior));
        all += posterior;
    }
    for (int mask = LANES / 2; mask > 0; mask /= 2) all += from_across(all, mask);
    const Scaled<Real> blank = record_of(w, a, b, 0, t)[2 * slots];
    if (lane == 0) gradient[a.blank] = Score(weight * (value(blank) - (Real(1) - all)));
}

// The gradient of a batch and the factors that it has, (B,), and should have.
struct Rescaling {
    void* gradient;       // of Arguments
    const void* weights;  // of Arguments
    const void* wanted;   // likewise, wanted_stride elements apart
    int64_t wanted_stride, batch, frames, outputs, batch_stride, frame_stride;
    int32_t type;
};

constexpr int PARTS = 16;  // blocks of an utterance

// In place. Where both factors are equal, as when the loss itself is differentiated, nothing is read.
template <typename Real, typename Score>
__global__ void rescale(Rescaling r) {
    const int64_t b = block() / PARTS, warp = block() % PARTS * (ROW_BLOCK / LANES) + thread() / LANES;
    const Real weight = static_cast<const Real*>(r.weights)[b];
    const Real wanted = static_cast<const Real*>(r.wanted)[b * r.wanted_stride];
    if (wanted == weight) return;
    const Real factor = wanted / weight;
    for (int64_t t = warp; t < r.frames; t += PARTS * (ROW_BLOCK / LANES)) {
        Score* const row = static_cast<Score*>(r.gradient) + b * r.batch_stride + t * r.frame_stride;
        for (int64_t v = thread() % LANES; v < r.outputs; v += LANES) row[v] = Score(factor * Real(row[v]));
    }
}

}  // namespace ctc
