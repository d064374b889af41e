#include "kernels/shared/op_types.h"

#include "kernels/attention/attention.h"
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/broadcast/broadcast.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/dense/dense.h"
#include "kernels/depthwise_conv2d/depthwise_conv2d.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gather/gather.h"
#include "kernels/image_input/image_input.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layout/layout.h"
#include "kernels/lrn/lrn.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pool/pool.h"
#include "kernels/scale_channels/scale_channels.h"
#include "kernels/softmax/softmax.h"
#include "kernels/tokens/tokens.h"
#include "kernels/values/values.h"

namespace carillon {

std::span<const OpType* const> op_types() {
  static constexpr const OpType* all[] = {&add_op,
                                          &attention_op,
                                          &avg_pool_op,
                                          &batch_norm_op,
                                          &clip_op,
                                          &concat_op,
                                          &constant_op,
                                          &conv2d_op,
                                          &dense_op,
                                          &depthwise_conv2d_op,
                                          &drop_path_op,
                                          &dropout_op,
                                          &embed_tokens_op,
                                          &erf_op,
                                          &exp_op,
                                          &first_token_op,
                                          &gather_op,
                                          &gelu_op,
                                          &global_avg_pool_op,
                                          &hard_sigmoid_op,
                                          &hard_swish_op,
                                          &image_input_op,
                                          &layer_norm_op,
                                          &leaky_relu_op,
                                          &lrn_op,
                                          &matmul_op,
                                          &max_pool_op,
                                          &mean_op,
                                          &multiply_op,
                                          &pad_op,
                                          &reciprocal_op,
                                          &relu_op,
                                          &reshape_op,
                                          &scale_op,
                                          &scale_channels_op,
                                          &shift_op,
                                          &sigmoid_op,
                                          &silu_op,
                                          &slice_op,
                                          &softmax_op,
                                          &split_op,
                                          &sqrt_op,
                                          &tanh_op,
                                          &transpose_op,
                                          &variable_op};
  return all;
}

}  // namespace carillon
