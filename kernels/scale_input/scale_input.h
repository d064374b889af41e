// scale_input: the batch's uint8 images as float32, multiplied by a constant.
//
//   y[b, i] = scale * image_b[i]        images: [batch] records of `sample` uint8, gathered; y: [batch, sample...]
//
// The op is the first of a graph: it has no tensor inputs and no gradient.
#pragma once

#include "carillon/graph/graph.h"

namespace carillon {

struct ScaleInputParams {
  Shape sample;  ///< extents of one image, for example {28, 28, 1}; from GraphContext, no attribute
  float scale = 1.0f;

  template <typename Fields>
  void visit(Fields& fields) {
    fields("scale", scale);
  }
};

/// The number of elements of `sample` equals the number of image bytes of a record.
Value scale_input(Graph& graph, const std::string& name, const ScaleInputParams& params);
extern const OpType scale_input_op;

std::unique_ptr<Op> make_scale_input_cuda(const ScaleInputParams& params, const OpContext& context,
                                          const OpTensors& tensors);

}  // namespace carillon
