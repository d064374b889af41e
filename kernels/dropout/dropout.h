// dropout: in training, sets each element to 0 with probability `rate`, and scales the other elements up.
// drop_path: in training, does the same to whole samples. In the branch of a residual block, this is stochastic depth.
//
//   y[b,i] = kept(b, i) ? x[b,i] / (1 - rate) : 0
//   dx[b,i] = kept(b, i) ? dy[b,i] / (1 - rate) : 0        in place of dy
//
// kept(b, i) is true if a random draw is at least `rate`. The draw depends only on the seed, the op's name, the stream
// position of sample b and, for dropout, element i of the sample (dropout_kernels.h). Therefore the draw does not
// depend on the number of ranks or on the batches, and a resumed run repeats it. Backward repeats the draws, because
// this needs less memory traffic than a mask. x, y: [batch, ...]. The op does not permit batch tiling, because a tile
// does not know the stream positions of its samples. Sources: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov,
// "Dropout: a simple way to prevent neural networks from overfitting", 2014; Huang, Sun, Liu, Sedra, Weinberger, "Deep
// networks with stochastic depth", 2016, with the scaling of timm's drop_path.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct DropoutParams {
  float rate = 0.5f;       ///< at least 0 and below 1
  bool training = true;    ///< from GraphContext, not an attribute; if false, or if rate is 0, no op is added: y is x
  std::uint64_t seed = 0;  ///< from GraphContext, not an attribute; seed of the draws

  template <typename Fields>
  void visit(Fields& fields) {
    fields("rate", rate);
  }
};

/// Errors: failed (the rate is out of range).
Value dropout(Graph& graph, const std::string& name, Value x, const DropoutParams& params);
extern const OpType dropout_op;
Value drop_path(Graph& graph, const std::string& name, Value x, const DropoutParams& params);
extern const OpType drop_path_op;

/// The key and the rate of one op's draws.
struct DropoutDraws {
  std::uint64_t key = 0;
  float rate = 0.0f;
  bool whole_samples = false;  ///< true: one draw for all elements of a sample (drop_path)
};

/// Tensors: inputs {x}, outputs {y}.
std::unique_ptr<Op> make_dropout_cuda(const DropoutDraws& draws, const OpContext& context, const OpTensors& tensors);

}  // namespace carillon
