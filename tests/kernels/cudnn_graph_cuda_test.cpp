// Tests that the code asks cuDNN for deterministic kernels. The test Structure.GpuSumsHaveAFixedOrder checks that no
// operation lacks the attributes for this.
#include "kernels/shared/cudnn_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/described_gpus.h"

namespace carillon::testing {
namespace {

namespace frontend = cudnn_frontend;

template <typename Attributes>
nlohmann::json json_of_deterministic() {
  return deterministic<Attributes>();
}

TEST(CudnnGraphCuda, OperationsRequestADeterministicAlgorithm) {
  EXPECT_EQ(json_of_deterministic<frontend::graph::SDPA_backward_attributes>().at("is_deterministic_algorithm"), true);
  EXPECT_EQ(json_of_deterministic<frontend::graph::Reduction_attributes>().at("is_deterministic"), true);
}

/// If this test fails, cuDNN's defaults have become deterministic, and the code need not set these attributes.
TEST(CudnnGraphCuda, OperationsAreNotDeterministicByDefault) {
  EXPECT_EQ(nlohmann::json(frontend::graph::SDPA_backward_attributes()).at("is_deterministic_algorithm"), false);
  EXPECT_EQ(nlohmann::json(frontend::graph::Reduction_attributes()).at("is_deterministic"), false);
}

/// A cuDNN graph of a convolution's weights gradient. Some of cuDNN's plans for it use atomic additions.
class WeightsGradient : public frontend::graph::Graph {
 public:
  WeightsGradient() {
    set_intermediate_data_type(frontend::DataType_t::FLOAT).set_compute_data_type(frontend::DataType_t::FLOAT);
    const auto dy = tensor(describe(1, {32, 64, 16, 16}, {64 * 256, 1, 64 * 16, 64}));
    const auto x = tensor(describe(2, {32, 64, 16, 16}, {64 * 256, 1, 64 * 16, 64}));
    const auto dw = conv_wgrad(
        dy, x,
        deterministic<frontend::graph::Conv_wgrad_attributes>().set_padding({1, 1}).set_stride({1, 1}).set_dilation(
            {1, 1}));
    *dw = describe(3, {64, 64, 3, 3}, {64 * 9, 1, 64 * 3, 64}).set_output(true);
  }

  bool is_nondeterministic(std::int64_t index) const {
    const auto& notes = plans.numeric_notes.at(static_cast<std::size_t>(index));
    return std::ranges::find(notes, frontend::NumericalNote_t::NONDETERMINISTIC) != notes.end();
  }

 private:
  static frontend::graph::Tensor_attributes describe(std::int64_t uid, const std::vector<std::int64_t>& extents,
                                                     const std::vector<std::int64_t>& strides) {
    return frontend::graph::Tensor_attributes().set_uid(uid).set_dim(extents).set_stride(strides).set_data_type(
        frontend::DataType_t::FLOAT);
  }
};

TEST(CudnnGraphCuda, BuildsNoPlanThatIsNotedAsNondeterministic) {
  WeightsGradient graph;
  frontend::error_t status = propose_plans(graph, {.device_json = a100}, {}, h200_workspace_bytes);
  ASSERT_TRUE(status.is_good()) << status.get_message();
  int deterministic_plans = 0, others = 0;
  for (std::int64_t index = 0; index < graph.get_execution_plan_count(); ++index) {
    if (!graph.is_nondeterministic(index)) {
      deterministic_plans += graph.build_plan_at_index(index).is_good() ? 1 : 0;
      continue;
    }
    ++others;
    EXPECT_TRUE(graph.build_plan_at_index(index).is_bad()) << "plan " << index;
  }
  EXPECT_GT(deterministic_plans, 0);
  EXPECT_GT(others, 0) << "the graph has no plan that a run could tell apart";
}

}  // namespace
}  // namespace carillon::testing
