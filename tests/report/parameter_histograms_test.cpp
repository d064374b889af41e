#include "src/report/parameter_histograms.h"

#include <gmock/gmock.h>

#include "src/device/cpu_device.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

using ::testing::IsEmpty;

class ParameterHistogramsTest : public ::testing::Test {
 protected:
  ParameterHistogramsTest() {
    for (int i = 0; i < static_cast<int>(parameters_.specs().size()); ++i) {
      upload_floats(device_, initial_values(parameters_.specs()[i], 1), parameters_.value(i));
      upload_floats(device_, initial_values(parameters_.specs()[i], 2), parameters_.gradient(i));
    }
  }

  CpuDevice device_{2};
  const BuiltNetwork built_ = build_network(mnist_network(mnist_images({.regularization = 0.5})), {.batch_size = 2});
  const ParameterLayout layout_{built_.graph.parameters()};
  ParameterStore parameters_{
      built_.graph.parameters(), device_, {.gradients = device_.allocate(gradient_bytes(layout_))}};
};

void expect_equal(const Histogram& found, const Histogram& expected) {
  EXPECT_EQ(found.min, expected.min);
  EXPECT_EQ(found.max, expected.max);
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.sum, expected.sum);
  EXPECT_EQ(found.sum_squares, expected.sum_squares);
  EXPECT_EQ(found.limits, expected.limits);
  EXPECT_EQ(found.counts, expected.counts);
}

TEST_F(ParameterHistogramsTest, AreOfEveryVariableAndOfItsGradientWithTheL2Part) {
  const ParameterHistograms found = parameter_histograms(parameters_, device_, {});
  for (int i = 0; i < static_cast<int>(parameters_.specs().size()); ++i) {
    const auto values = parameters_.value(i).floats();
    expect_equal(found.variables.at(i), histogram_of(values));
    expect_equal(found.gradients.at(i),
                 histogram_of_sum(parameters_.gradient(i).floats(), parameters_.specs()[i].l2_factor, values));
  }
}

TEST_F(ParameterHistogramsTest, OfAShareLeaveOutTheRest) {
  EXPECT_THAT(parameter_histograms(parameters_, device_, {.variables = true, .gradients = false}).gradients, IsEmpty());
  EXPECT_THAT(parameter_histograms(parameters_, device_, {.variables = false, .gradients = true}).variables, IsEmpty());
}

TEST_F(ParameterHistogramsTest, ComeOutOfTheirBytesAsTheyWentIn) {
  const std::vector<Histogram> sent = parameter_histograms(parameters_, device_, {}).variables;
  const std::vector<Histogram> received = unpack_histograms(pack(sent));
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) expect_equal(received[i], sent[i]);
  EXPECT_THAT(unpack_histograms(pack({})), IsEmpty());
}

}  // namespace
}  // namespace carillon::testing
