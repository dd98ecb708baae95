// CTC on the GPU: log-softmax, loss and the gradient with respect to the logits (Deep Speech 2, section 4.2, improved).
//
//     check     one block an utterance   are lengths and labels sound? sorts the labels and finds where each begins
//     rows      one warp or block a row  softmax of each frame into the gradient; the probabilities that the trellis
//                                        needs, of the blank and of the L labels, side by side
//     columns   one block an utterance   alpha from the first frame on and beta from the last, at the same time:
//
//                    frame 0 ......... middle ......... T - 1
//                    alpha ----------->|<----------- beta        store what they find
//                                      * meet: total probability, the loss
//                    beta <------------|------------> alpha      multiply by what the other stored: posteriors
//
//     labels    one warp a row           gradient of the blank and the labels: softmax - sum of posteriors
//     rescale   16 blocks an utterance   of the backward pass: other factors of the gradient, where they differ
//
// A column lies in registers, P pairs of states (ctc_column.h) a thread; neighbours hand labels over by shuffles, warps
// by shared memory: each is a burst of frames later than the one before it, so there is one barrier per burst. No sum
// depends on the order of threads; the host does not wait; lengths stay on the GPU.
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

// Whether all rows of the logits and of their gradient, of scores of so many bytes, begin and end where bundles do.
inline bool aligned(const Arguments& a, int64_t size) {
    const auto ends = {int64_t(a.logits), int64_t(a.gradient), a.outputs * size, a.batch_stride * size, a.frame_stride * size};
    return std::all_of(ends.begin(), ends.end(), [](int64_t end) { return end % BUNDLE == 0; });
}

template <typename Real, typename Score>
struct Types {};

// Calls `work` with the types that the number stands for; 0, or the number of a CUDA error.
template <typename Work>
int with_types(int32_t type, Work work) {
    switch (type) {
        case FLOAT64: work(Types<double, double>()); break;
        case BFLOAT16: work(Types<float, Bfloat16>()); break;
        case FLOAT16: work(Types<float, Half>()); break;
        default: work(Types<float, float>());
    }
    return last_error();
}

template <typename Real, typename Score>
void run(Types<Real, Score>, const Arguments& a, Stream stream) {
    const Workspace<Real> w = lay_out<Real>(a);
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    start(check<Real>, a.batch, SORTING, stream, a, w);
    if (aligned(a, sizeof(Score))) start_rows<Real, Score, BUNDLE / sizeof(Score)>(a, w, stream);
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

template <typename Real, typename Score>
void run(Types<Real, Score>, const Rescaling& r, Stream stream) {
    start(rescale<Real, Score>, r.batch * PARTS, ROW_BLOCK, stream, r);
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
    return ctc::with_types(a->type, [&](auto types) { ctc::run(types, *a, static_cast<Stream>(stream_pointer)); });
}

// Enqueues a change of the gradient's factors, in place; 0, or the number of a CUDA error.
extern "C" int ds2_ctc_rescale(const ctc::Rescaling* r, void* stream_pointer) {
    return ctc::with_types(r->type, [&](auto types) { ctc::run(types, *r, static_cast<Stream>(stream_pointer)); });
}
