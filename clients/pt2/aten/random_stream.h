// Random numbers of a model: which number of the Philox stream each element of a tensor takes.
//
// A model that draws numbers has one state, int64 [2]: seed and offset. Operators draw in the order
// of the program, each from where the one before stopped; a call leaves the offset where the last
// one stopped. Elements find their numbers as in PyTorch's CUDA kernels on a GPU with 132
// multiprocessors, so that a tensor of at most 270,336 elements has the bits that any CUDA device
// gives for the same seed and offset.
#pragma once

#include "clients/pt2/aten/translate_context.h"

namespace clients {

// Where each element of a tensor reads: a counter of the stream and the first of its words that are
// the element's, all int64 and broadcastable to one shape.
struct Drawn {
  NodeId seed = 0, counter = 0, subsequence = 0, word = 0;
};
// Element i is number i / T of thread i % T, T being as many threads as the GPU runs at once, at
// most one for each element; a thread takes four numbers of 32 bits from a counter, or two of 64.
Drawn draw_by_threads(Context& c, const Shape& shape, bool wide);
// Elements 4 k to 4 k + 3 are the words of thread k's first counter. `numbers` is how many numbers
// of 32 bits the offset advances by, a multiple of 4.
Drawn draw_by_fours(Context& c, const Shape& shape, const Expr& numbers);
// By how much a CUDA generator's offset advances for a tensor of `count` elements.
Expr numbers_taken(const Expr& count, bool wide);

// The word `next` places after an element's first one: int64 in [0, 2^32).
NodeId random_word(Context& c, const Drawn& at, int next = 0);
// 63 bits of both words of an element that is drawn wide, as an int64 that is not negative, and the
// lowest of the 64.
struct WideWord {
  NodeId high = 0, lowest = 0;
};
WideWord random_wide_word(Context& c, const Drawn& at);

// One number for each element: float64 for `d` float64, else float32.
// Uniform in (0, 1]; float32 where it is drawn already.
NodeId random_uniform_at(Context& c, const Drawn& at);
// The same of both words of an element that is drawn wide: float64, 53 bits.
NodeId random_wide_uniform_at(Context& c, const Drawn& at);
NodeId random_uniform(Context& c, const Shape& shape, DType d);
// Normal with mean 0 and deviation 1, by Box and Muller.
NodeId random_normal(Context& c, const Shape& shape, DType d);
// Exponential with rate 1.
NodeId random_exponential(Context& c, const Shape& shape, DType d);

// Dropout: whether each element is kept, with probability 1 - p, and x scaled by 1 / (1 - p) where
// it is, else 0. Four neighbours share a counter where fours fill the tensor.
NodeId random_kept(Context& c, const Shape& shape, double p);
NodeId scaled_where_kept(Context& c, NodeId x, NodeId kept, double p);

}  // namespace clients
