// CTC on the GPU: log-softmax, loss and the gradient with respect to the logits (Deep Speech 2, section 4.2, improved).
//
//     check     one block an utterance   are lengths and labels sound? sorts the labels and finds where each begins
//     rows      one warp or block a row  softmax of each frame into the gradient; the probabilities that the trellis
//                                        needs, of the blank and of the L labels, side by side
//     columns   one block an utterance   alpha from the first frame on and beta from the last, at the same time:
//
//                    frame 0 ......... middle ......... T - 1
//                    alpha ----------->|<----------- beta        keep what they find
//                                      * meet: total probability, the loss
//                    beta <------------|------------> alpha      multiply with what the other kept: posteriors
//
//     labels    one warp a row           gradient of the blank and the labels: softmax - sum of posteriors
//     rescale   16 blocks an utterance   of the backward pass: other factors of the gradient, where they differ
//
// A column lies in registers, P pairs of states (ctc_column.h) a thread; neighbours hand labels over by shuffles, warps
// by shared memory: each is a burst of frames behind the one before it, so a barrier comes once a burst. Nothing is added
// in an order that chance decides; the host waits for nothing; lengths stay on the GPU.
#include <stdint.h>

#include <algorithm>
#include <initializer_list>

#include "ctc_check.h"
#include "ctc_labels.h"
#include "ctc_rows.h"
#include "ctc_walk.h"

namespace ctc {

template <typename Real, int P>
void start_columns(const Arguments& a, const Workspace<Real>& w, Stream stream) {
    start(columns<Real, P>, a.batch, 2 * w.warps * LANES, stream, a, w);
}

template <typename Real, typename Score, int WIDTH>
void start_rows(const Arguments& a, const Workspace<Real>& w, Stream stream) {
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    if (a.outputs >= WIDE) start(rows<Real, Score, ROW_BLOCK, WIDTH>, all, ROW_BLOCK, stream, a, w);
    else start(rows<Real, Score, ROW_WARP, WIDTH>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
}

// Whether all rows of the logits and of their gradient begin and end at multiples of so many bytes.
inline bool aligned(const Arguments& a, int64_t bytes, int64_t size) {
    const auto ends = {int64_t(a.logits), int64_t(a.gradient), a.outputs * size, a.batch_stride * size, a.frame_stride * size};
    return std::all_of(ends.begin(), ends.end(), [bytes](int64_t end) { return end % bytes == 0; });
}

template <typename Real, typename Score>
void run(const Arguments& a, Stream stream) {
    const Workspace<Real> w = lay_out<Real>(a);
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    start(check<Real>, a.batch, SORTING, stream, a, w);
    constexpr int WIDTH = 16 / sizeof(Score);
    if (aligned(a, 16, sizeof(Score))) start_rows<Real, Score, WIDTH>(a, w, stream);
    else start_rows<Real, Score, 1>(a, w, stream);
    switch (w.power) {
        case 0: start_columns<Real, 1>(a, w, stream); break;
        case 1: start_columns<Real, 2>(a, w, stream); break;
        case 2: start_columns<Real, 4>(a, w, stream); break;
        case 3: start_columns<Real, 8>(a, w, stream); break;
        default: start_columns<Real, 1 << MOST_POWER>(a, w, stream);
    }
    if (a.gradient) start(labels<Real, Score>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
}

}  // namespace ctc

// Labels of one utterance that the kernels can hold.
extern "C" int64_t ds2_ctc_most_labels() { return (ctc::MOST_WARPS * ctc::LANES << ctc::MOST_POWER) - 1; }

// Bytes of workspace that ds2_ctc needs for these arguments.
extern "C" int64_t ds2_ctc_workspace(const ctc::Arguments* arguments) {
    ctc::Arguments a = *arguments;
    a.workspace = nullptr;
    return a.type == ctc::FLOAT64 ? ctc::lay_out<double>(a).bytes : ctc::lay_out<float>(a).bytes;
}

// Enqueues everything on the stream and returns; 0, or the number of a CUDA error. Rows are counted in 32 bits: memory
// ends long before.
extern "C" int ds2_ctc(const ctc::Arguments* a, void* stream_pointer) {
    const Stream stream = static_cast<Stream>(stream_pointer);
    switch (a->type) {
        case ctc::FLOAT64: ctc::run<double, double>(*a, stream); break;
        case ctc::BFLOAT16: ctc::run<float, Bfloat16>(*a, stream); break;
        case ctc::FLOAT16: ctc::run<float, Half>(*a, stream); break;
        default: ctc::run<float, float>(*a, stream);
    }
    return last_error();
}

// Enqueues a change of the gradient's factors, in place; 0, or the number of a CUDA error.
extern "C" int ds2_ctc_rescale(const ctc::Rescaling* r, void* stream_pointer) {
    const Stream stream = static_cast<Stream>(stream_pointer);
    switch (r->type) {
        case ctc::FLOAT64: ctc::start_rescale<double, double>(*r, stream); break;
        case ctc::BFLOAT16: ctc::start_rescale<float, Bfloat16>(*r, stream); break;
        case ctc::FLOAT16: ctc::start_rescale<float, Half>(*r, stream); break;
        default: ctc::start_rescale<float, float>(*r, stream);
    }
    return last_error();
}
