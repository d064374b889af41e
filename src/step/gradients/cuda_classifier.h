// CudaClassifier: the GradientSource of a small classifier on a GPU (classifier_step.h). CUDA builds only.
//
//   sink.takes_tiles    true: two kernels; the update computes the gradients
//                       false: three kernels; all gradients are complete at once
//
// Updated variables are equal in both cases, bit for bit. The calls only enqueue, so a step can be captured.
#pragma once

#include "kernels/dense_classifier/classifier_step.h"
#include "src/step/gradients/gradient_source.h"

namespace carillon {

class CudaClassifier final : public GradientSource {
 public:
  CudaClassifier(const GradientSourceContext& context, const ClassifierForm& form)
      : context_(context), step_(form, context.device, context.parameters, context.inputs) {}

  void enqueue(GradientSink& sink) override;
  void finish() override {}
  void rebuild() override {}
  bool averages_buffers() const override { return false; }
  std::size_t activation_bytes() const override { return step_.memory_bytes(); }

 private:
  GradientSourceContext context_;
  ClassifierStepCuda step_;
};

}  // namespace carillon
