// WholeBatch: the GradientSource that takes a rank's batch in one pass, on a CPU or a GPU.
#pragma once

#include <memory>

#include "src/graph/executable.h"
#include "src/step/gradients/gradient_source.h"

namespace carillon {

class WholeBatch final : public GradientSource {
 public:
  explicit WholeBatch(const GradientSourceContext& context);

  void enqueue(GradientSink& sink) override;
  void finish() override {}
  void rebuild() override;
  bool averages_buffers() const override { return false; }
  std::size_t activation_bytes() const override { return executable_->memory_bytes(); }

 private:
  GradientSourceContext context_;
  std::unique_ptr<Executable> executable_;
  bool clears_gradients_ = false;  ///< in the next step: `executable_` writes fewer gradients than the one before
};

}  // namespace carillon
