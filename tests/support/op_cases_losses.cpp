// The cases of losses.
#include "tests/support/op_case_lists.h"

#include "kernels/dense/dense.h"
#include "kernels/mean_loss/mean_loss.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace carillon::testing {

std::vector<OpCase> losses() {
  std::vector<OpCase> cases;
  for (const std::int64_t batch : {1, 7, 300}) {
    for (const bool mixes : {false, true}) {
      cases.push_back({.name = "SoftmaxCrossEntropy" + std::to_string(batch) + (mixes ? "Mixed" : ""),
                       .batch = batch,
                       .build = [=](OpHarness& h) {
                         return softmax_cross_entropy(h.graph(), "loss", h.input("z", {batch, 10}), labels(h),
                                                      {.label_smoothing = batch == 7 ? 0.2f : 0.0f,
                                                       .mixing = {.mixup = mixes ? 1.0 : 0.0, .seed = 3}});
                       }});
    }
  }
  for (const bool focal : {false, true}) {
    cases.push_back({.name = focal ? "SoftmaxCrossEntropyFocal" : "SoftmaxCrossEntropyWeighted",
                     .batch = 70,
                     .build = [=](OpHarness& h) {
                       return softmax_cross_entropy(
                           h.graph(), "loss", h.input("z", {70, 10}), labels(h),
                           {.label_smoothing = focal ? 0.1f : 0.0f,
                            .class_weights = {0.5f, 2.0f, 1.0f, 0.0f, 1.5f, 0.25f, 3.0f, 1.0f, 0.75f, 1.25f},
                            .focal_gamma = focal ? 2.0f : 0.0f});
                     }});
  }
  for (const std::int64_t classes : {100, 1000}) {
    for (const std::int64_t batch : {3, 70}) {  // batch of 3: the loss op computes the bias gradient; batch of 70: the
                                                // dense op computes it
      cases.push_back({.name = "SoftmaxCrossEntropyOf" + std::to_string(classes) + "By" + std::to_string(batch),
                       .batch = batch,
                       .integers = true,
                       .fp32_tolerance = 1e-5f,  // the gradient of x is a sum over the classes
                       .rounds_once = false,
                       .build = [=](OpHarness& h) {
                         const Value z = dense(h.graph(), "layer", h.input("x", {batch, 8}), {.units = classes});
                         return softmax_cross_entropy(h.graph(), "loss", z, labels(h));
                       }});
    }
  }
  for (const MeanLossKind kind : {MeanLossKind::sigmoid_cross_entropy, MeanLossKind::squared_error,
                                  MeanLossKind::absolute_error, MeanLossKind::huber}) {
    for (const std::int64_t batch : {3, 300}) {  // 3 samples need less than one block; 300 need several
      cases.push_back({.name = "MeanLoss" + std::to_string(static_cast<int>(kind)) + "By" + std::to_string(batch),
                       .batch = batch,
                       .build = [=](OpHarness& h) {  // the target is the bytes of the labels
                         const Value target = h.graph().add_target({.type = DType::u8, .shape = {4}});
                         return mean_loss(
                             h.graph(), "loss", h.input("z", {batch, 4}), target,
                             {.kind = kind, .delta = 0.5f, .mixing = {.mixup = batch > 3 ? 1.0 : 0.0, .seed = 3}});
                       }});
    }
  }
  return cases;
}

}  // namespace carillon::testing
